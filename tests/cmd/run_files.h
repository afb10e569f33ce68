#pragma once
// Reads the files of a run's directory and compares the files of two runs.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/base/json/json.h"

namespace estrain::testing {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Difference {
  std::string text;             // empty: no difference
  int64_t first_step = kNever;  // first step with different losses or digests

  bool none() const { return text.empty(); }
};

// Compares the digests of all steps (the files byte for byte), the losses of all ESTs and steps, learning rates,
// evaluations, and all tensors of the last checkpoints.
Difference difference(const std::string& run, const std::string& other);

// Empty if all tensors are equal, bit for bit.
std::string checkpoint_difference(const std::string& path, const std::string& other);

std::vector<int64_t> metric_steps(const std::string& run);       // in the file's order
int64_t last_step(const std::string& run);                       // of the metrics, not slower in a long run; 0: no step
std::vector<int64_t> fingerprint_steps(const std::string& run);  // in the file's order
std::vector<int64_t> first_steps(int64_t last);                  // 1, 2, …, last
std::vector<Json> changes_of(const std::string& run);            // changes.jsonl
std::vector<Json> events(const std::string& run, const std::string& name);
std::vector<int64_t> checkpoint_steps(const std::string& run);  // all files, each fully verified
std::string latest_checkpoint(const std::string& run);          // where `latest` points

}  // namespace estrain::testing
