#pragma once
// `estrain export --format pt2`: a run's weights in the file of a program of the model: of the program for evaluations
// (model.eval_file), or of the program that is trained (model.file) where the job has no other.

#include <string>

#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/models/export_model.h"

namespace estrain::cmd {

struct ProgramExport {
  std::string program;  // its file; empty: the job's own
  checkpoint::Weights weights = checkpoint::Weights::trained;
};

struct WrittenProgram {
  std::string program;  // its file
  bool trains = false;  // the job's own, exported in train() mode
};

// Writes `out`: the program with the weights of a checkpoint. Throws Fault::usage where the job trains none,
// Fault::mismatch where the program is of another model, Fault::corrupt, Fault::io.
WrittenProgram export_program(const checkpoint::CheckpointFile& from, const ProgramExport& what,
                              const std::string& out);

}  // namespace estrain::cmd
