#pragma once
// Compares two checkpoints tensor by tensor, and a checkpoint with a record of the same state.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/inspect/verify/comparison.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/record/logs/fingerprints.h"

namespace estrain::verify {

// The actual digests of a checkpoint's elements on disk; each file is read once.
class PresentDigests {
 public:
  const std::vector<uint64_t>& of(const checkpoint::CheckpointFile& file);
  // Tensors whose elements differ from what was written, by path.
  std::vector<std::string> damaged(const checkpoint::CheckpointFile& file);

 private:
  std::map<std::string, std::vector<uint64_t>> by_path_;
};

// Tensors that only one of the two has, or that differ in type or shape: "only A has /model/x".
std::vector<std::string> layout_differences(const checkpoint::CheckpointFile& a, const checkpoint::CheckpointFile& b);

// Tensors of equal form that differ, in the order of `a`.
std::vector<TensorDifference> tensor_differences(const checkpoint::CheckpointFile& a,
                                                 const checkpoint::CheckpointFile& b, PresentDigests& present);

// Differing attributes that are part of the state: "lr is 0.1 in A, 0.2 in B".
std::vector<std::string> attribute_differences(const checkpoint::CheckpointMeta& a,
                                               const checkpoint::CheckpointMeta& b);

// Names of the record whose digests differ from those of the checkpoint's actual elements.
std::vector<std::string> unlike_record(const checkpoint::CheckpointFile& file, PresentDigests& present,
                                       const record::FingerprintReader& fingerprints, size_t record);

}  // namespace estrain::verify
