#pragma once
// Measured layers of models, in the form of DeepPool's tables, as parts of a burst-parallel plan (core/plan/burst.h).
//
// Columns: model, set, order, layer, params (JSON, with ';' for ','), batch_per_gpu, input_dims (CxHxW or features),
// total_ms. Optional: block and branch; rows of one block (a number from 1) follow each other and are branches of it by
// their branch number; 0 or nothing: the chain.
//
// A layer's time on g devices is that of batch / g samples: linear between measured batches, in proportion beyond the
// largest, that of the smallest below. Numbers of devices are powers of two, no more than samples. Activations and
// parameters have 4 bytes; parameters are counted of convolutions and linear layers, as the published planner does.

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/burst.h"

namespace estrain::simulate {

struct LayerTableOptions {
  std::string model;         // empty: the only one
  std::string set;           // empty: the first that the model has in the table
  int64_t batch = 32;        // samples, of all devices
  int64_t most_devices = 8;  // the largest power of two up to here is the most
};

// Throws Fault::spec for a table that is wrong, Fault::usage for a model or set that is not in it.
std::vector<plan::BurstPart> read_layer_table(const std::string& path, const LayerTableOptions& options);

}  // namespace estrain::simulate
