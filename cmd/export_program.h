#pragma once
// `estrain export --format pt2`: a run's weights in the file of a program of the model: the program for evaluations
// (model.eval_file), or the trained program (model.file) if the job has no evaluation program.

#include <string>

#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/models/export_model.h"

namespace estrain::cmd {

struct ProgramExport {
  std::string program;  // the program's file; empty: the job's own
  checkpoint::Weights weights = checkpoint::Weights::trained;
};

struct WrittenProgram {
  std::string program;  // the program's file
  bool trains = false;  // the job's own, exported in train() mode
};

// Writes `out`: the program with the weights of a checkpoint. Throws Fault::usage if the job trains no program,
// Fault::mismatch if the program belongs to another model, Fault::corrupt, Fault::io.
WrittenProgram export_program(const checkpoint::CheckpointFile& from, const ProgramExport& what,
                              const std::string& out);

}  // namespace estrain::cmd
