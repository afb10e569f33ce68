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
  // Returns the tensors whose elements differ from the written elements, by path.
  std::vector<std::string> damaged(const checkpoint::CheckpointFile& file);

 private:
  std::map<std::string, std::vector<uint64_t>> by_path_;
};

// Returns tensors of only one checkpoint, and tensors with different types or shapes: "only A has /model/x".
std::vector<std::string> layout_differences(const checkpoint::CheckpointFile& a, const checkpoint::CheckpointFile& b);

// Returns tensors of equal form with differences, in the order of `a`.
std::vector<TensorDifference> tensor_differences(const checkpoint::CheckpointFile& a,
                                                 const checkpoint::CheckpointFile& b, PresentDigests& present);

// Returns differing attributes of the state: "lr is 0.1 in A, 0.2 in B".
std::vector<std::string> attribute_differences(const checkpoint::CheckpointMeta& a,
                                               const checkpoint::CheckpointMeta& b);

// Returns names of the record whose digests differ from the digests of the checkpoint's actual elements.
std::vector<std::string> unlike_record(const checkpoint::CheckpointFile& file, PresentDigests& present,
                                       const record::FingerprintReader& fingerprints, size_t record);

}  // namespace estrain::verify
