#pragma once
// A checkpoint's metadata besides the tensors: attributes of the file.

#include <string>

#include "core/base/ids.h"

namespace estrain::checkpoint {

struct CheckpointMeta {
  std::string estrain_version;  // version of the writing program
  Step step;                    // completed updates
  Epoch epoch;                  // of the next sample
  int64_t samples = 0;          // cursor: samples consumed by each virtual rank in this epoch
  int64_t ests = 0;             // N
  double lr = 0;                // of the default parameter group at the last update, as computed by the schedule
  std::string spec;             // resolved job spec, TOML
  std::string changes;          // text of changes.jsonl
  std::string stages;           // JSON: the device sets of the job so far
  std::string devices;          // of the stage that wrote the file: "cpu,cpu:avx2"
  std::string cpu;              // vendor, model and capability of the host
  std::string algorithms{};     // text of algorithms.jsonl: the algorithms of operations on GPUs
  std::string data{};           // JSON: identity of the data files; empty: none

  bool operator==(const CheckpointMeta&) const = default;
};

}  // namespace estrain::checkpoint
