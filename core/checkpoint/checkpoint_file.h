#pragma once
// Checkpoints on disk: one HDF5 file each, described in FORMAT.md, readable with h5py alone.
//
// A checkpoint is whole or it is refused: every byte is covered by a digest (seal.h) that is checked before HDF5 sees
// the file and when elements are read. No damage, truncation or stray edit is accepted silently or crashes the reader.
//
// Errors, each with the file's name: Fault::io (the system refused; a full disk says so), Fault::corrupt (damaged or
// truncated; names the tensor if only its elements are), Fault::mismatch (no checkpoint, of a newer format, or one that
// does not fit the layout asked for: every tensor missing, superfluous or of another shape is named).

#include <string>
#include <vector>

#include "core/base/disk.h"
#include "core/base/unique_fd.h"
#include "core/checkpoint/checkpoint_meta.h"
#include "core/checkpoint/seal.h"
#include "core/checkpoint/state_layout.h"

namespace estrain::checkpoint {

// Ends the name of a checkpoint that is being written.
constexpr const char* temporary_suffix = ".tmp";

// Writes one copy of the state (layout.bytes bytes, 4-byte aligned): to a temporary name beside `path`, synced,
// renamed, folder synced. Who reads `path` sees a whole checkpoint or none. On failure nothing is left behind.
void write_checkpoint(const std::string& path, const StateLayout& layout, const std::byte* state,
                      const CheckpointMeta& meta, Disk& disk = real_disk());

enum class Part {
  everything,
  model,  // parameters and buffers
};

class CheckpointFile {
 public:
  // Checks seal, structure and metadata; elements are checked when they are read.
  static CheckpointFile open(const std::string& path);

  const std::string& path() const { return path_; }
  const CheckpointMeta& meta() const { return meta_; }
  // The tensors in the file's order (that of writing within each role); offsets are those of a copy laid out so.
  const StateLayout& layout() const { return layout_; }
  // Of the elements of layout().tensors[tensor], as it was written.
  uint64_t digest(size_t tensor) const { return digests_[tensor]; }
  // Of all tensors' elements as they are in the file now, damaged or not.
  std::vector<uint64_t> present_digests() const;

  // Checks the elements of all tensors.
  void verify() const;

  // Reads the elements of layout().tensors[tensor] into `out` and checks them.
  void read(size_t tensor, std::byte* out) const;
  // The same without the check: to see what became of a damaged tensor.
  void read_unchecked(size_t tensor, std::byte* out) const;

  // Reads a part of the state into a copy laid out as `layout` says (64-byte aligned), strictly: of this part the file
  // holds exactly the layout's tensors and ties. The copy is usable only if this returns.
  void read_state(const StateLayout& layout, std::byte* state, Part part = Part::everything) const;

 private:
  CheckpointFile() = default;
  // What to read of one tensor; `out` may be nullptr: digest it only.
  struct Wanted {
    size_t tensor;
    std::byte* out;
  };
  std::vector<uint64_t> read_present(const std::vector<Wanted>& wanted) const;
  void read_checked(const std::vector<Wanted>& wanted) const;
  void require_digest(size_t tensor, uint64_t present) const;

  std::string path_;
  UniqueFd fd_;  // a file that is pruned meanwhile stays readable
  CheckpointMeta meta_;
  StateLayout layout_;
  std::vector<uint64_t> digests_;
  std::vector<uint64_t> offsets_;
};

// Whether the file starts with a checkpoint's seal, be it intact or not. Throws Fault::io.
bool is_checkpoint(const std::string& path);

// Accepts a checkpoint's present elements and attributes as right: computes all digests and the seal anew. For tests
// and for whoever edits a checkpoint with h5py on purpose.
void reseal(const std::string& path);

}  // namespace estrain::checkpoint
