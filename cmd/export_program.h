#pragma once
// `estrain export --format pt2`: a run's weights in the file of the program that it trains.

#include <string>

#include "core/checkpoint/checkpoint_file.h"
#include "core/checkpoint/models/export_model.h"

namespace estrain::cmd {

struct ProgramExport {
  std::string program;  // its file; empty: that of the program that the job trains (model.file)
  checkpoint::Weights weights = checkpoint::Weights::trained;
};

// Writes `out`: the program with the weights of a checkpoint. Throws Fault::usage where the job trains none,
// Fault::mismatch where the program is of another model, Fault::corrupt, Fault::io.
void export_program(const checkpoint::CheckpointFile& from, const ProgramExport& what, const std::string& out);

}  // namespace estrain::cmd
