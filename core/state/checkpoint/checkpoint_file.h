#pragma once
// Checkpoints on disk: one HDF5 file each, described in FORMAT.md, readable with h5py alone.
//
// A damaged checkpoint is refused: a digest (seal.h) covers every byte and is checked before HDF5 opens the file and
// when elements are read. So damage, truncation or edits are neither accepted silently nor crash the reader.
//
// Errors, each with the file's name: Fault::io (the system refused, for example a full disk), Fault::corrupt (damaged
// or truncated; names the tensor if only its elements are damaged), Fault::mismatch (not a checkpoint, a newer format,
// or another layout than requested: names every missing or superfluous tensor, and every tensor of another shape).

#include <string>
#include <vector>

#include "core/base/files/disk.h"
#include "core/base/files/unique_fd.h"
#include "core/state/checkpoint/bytes/seal.h"
#include "core/state/checkpoint/state/checkpoint_meta.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

// Suffix of a checkpoint during its writing.
constexpr const char* temporary_suffix = ".tmp";

// Writes one copy of the state (layout.bytes bytes, 4-byte aligned) under a temporary name beside `path`, syncs and
// renames the file, and syncs the folder. Readers of `path` see a whole checkpoint or none. A failure leaves nothing.
void write_checkpoint(const std::string& path, const StateLayout& layout, const std::byte* state,
                      const CheckpointMeta& meta, Disk& disk = real_disk());

enum class StatePart {
  everything,
  model,  // parameters and buffers
};

class CheckpointFile {
 public:
  // Checks seal, structure and metadata; elements are checked when read.
  static CheckpointFile open(const std::string& path);

  const std::string& path() const { return path_; }
  const CheckpointMeta& meta() const { return meta_; }
  // Returns the tensors in file order (the order of writing within each role), with offsets of a copy in this order.
  const StateLayout& layout() const { return layout_; }
  // The recorded digest of the elements of layout().tensors[tensor].
  uint64_t digest(size_t tensor) const { return digests_[tensor]; }
  // The actual digests of all tensors' elements in the file, damaged or not.
  std::vector<uint64_t> present_digests() const;

  // Checks the elements of all tensors.
  void verify() const;

  // Reads the elements of layout().tensors[tensor] into `out` and checks the elements.
  void read(size_t tensor, std::byte* out) const;
  // Does the same without the check, to inspect a damaged tensor.
  void read_unchecked(size_t tensor, std::byte* out) const;

  // Reads a part of the state into a copy with the layout `layout` (64-byte aligned). Strict: for this part the file
  // must hold exactly the layout's tensors and ties. The copy is usable only if this returns.
  void read_state(const StateLayout& layout, std::byte* state, StatePart part = StatePart::everything) const;

 private:
  CheckpointFile() = default;
  // A tensor to read; nullptr as `out`: digest only.
  struct WantedTensor {
    size_t tensor;
    std::byte* out;
  };
  std::vector<uint64_t> read_present(const std::vector<WantedTensor>& wanted) const;
  void read_checked(const std::vector<WantedTensor>& wanted) const;
  void require_digest(size_t tensor, uint64_t present) const;

  std::string path_;
  UniqueFd fd_;  // open, so a file pruned meanwhile stays readable
  CheckpointMeta meta_;
  StateLayout layout_;
  std::vector<uint64_t> digests_;
  std::vector<uint64_t> offsets_;
};

// Tells whether the file starts with a checkpoint's seal, intact or not. Throws Fault::io.
bool is_checkpoint(const std::string& path);

// Accepts a checkpoint's current elements and attributes: recomputes all digests and the seal. For tests, and for users
// who edit a checkpoint with h5py on purpose.
void reseal(const std::string& path);

}  // namespace estrain::checkpoint
