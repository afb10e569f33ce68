#pragma once
// Measured layers of models, in the form of DeepPool's tables, as parts of a burst-parallel plan
// (core/planning/plan/burst.h).
//
// Columns: model, set, order, layer, params (JSON, with ';' for ','), batch_per_gpu, input_dims (CxHxW or features),
// total_ms. Optional: block and branch; rows of a block (a number from 1) follow each other, and the branch number says
// the row's branch; 0 or nothing: the chain.
//
// A layer's time on g devices is the time of batch / g samples: interpolated linearly between measured batches,
// proportional beyond the largest, and constant below the smallest. Numbers of devices are powers of two, at most the
// number of samples. Activations and parameters have 4 bytes; parameters of convolutions and linear layers count.

#include <cstdint>
#include <string>
#include <vector>

#include "core/planning/plan/burst.h"

namespace estrain::simulate {

struct LayerTableOptions {
  std::string model;         // empty: the table's only model
  std::string set;           // empty: the model's first in the table
  int64_t batch = 32;        // samples on all devices
  int64_t most_devices = 8;  // rounded down to a power of two
};

// Throws Fault::spec for an invalid table, Fault::usage for an unknown model or set.
std::vector<plan::BurstPart> read_layer_table(const std::string& path, const LayerTableOptions& options);

}  // namespace estrain::simulate
