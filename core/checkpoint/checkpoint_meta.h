#pragma once
// What a checkpoint says about itself beside the tensors: attributes of the file.

#include <string>

#include "core/base/ids.h"

namespace estrain::checkpoint {

struct CheckpointMeta {
  std::string estrain_version;  // of the program that wrote it
  Step step;                    // completed updates
  Epoch epoch;                  // of the next sample
  int64_t samples = 0;          // cursor: samples that every virtual rank has consumed of this epoch
  int64_t ests = 0;             // N
  double lr = 0;                // of the last update's default parameter group, as the schedule carries it
  std::string spec;             // resolved job spec, TOML
  std::string changes;          // text of changes.jsonl
  std::string stages;           // JSON: the device sets the job ran on so far
  std::string devices;          // of the stage that wrote it: "cpu,cpu:avx2"
  std::string cpu;              // vendor, model and capability of the host
  std::string algorithms{};     // text of algorithms.jsonl: which algorithm computes what on GPUs
  std::string data{};           // JSON: identity of the data files; empty: there are none, or not known

  bool operator==(const CheckpointMeta&) const = default;
};

}  // namespace estrain::checkpoint
