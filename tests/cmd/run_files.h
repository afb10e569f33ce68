#pragma once
// What a run left in its directory, and whether two runs left the same.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace estrain::testing {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Difference {
  std::string text;             // empty: none
  int64_t first_step = kNever;  // whose losses or digests differ first

  bool none() const { return text.empty(); }
};

// Digests of every step (the files byte for byte), losses of every EST at every step, learning rates, evaluations, and
// every tensor of the last checkpoints.
Difference difference(const std::string& run, const std::string& other);

// Empty if all tensors are equal, bit for bit.
std::string checkpoint_difference(const std::string& path, const std::string& other);

std::vector<int64_t> metric_steps(const std::string& run);       // in the file's order
std::vector<int64_t> fingerprint_steps(const std::string& run);  // in the file's order
std::vector<int64_t> first_steps(int64_t last);                  // 1, 2, …, last
std::vector<Json> events(const std::string& run, const std::string& name);
std::vector<int64_t> checkpoint_steps(const std::string& run);  // all files, each checked whole
std::string latest_checkpoint(const std::string& run);          // where `latest` points

}  // namespace estrain::testing
