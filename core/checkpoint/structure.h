#pragma once
// The HDF5 side of a checkpoint: groups, datasets, links and attributes, as FORMAT.md describes them; no elements.

#include <vector>

#include "core/checkpoint/checkpoint_meta.h"
#include "core/checkpoint/state_layout.h"
#include "core/h5/group.h"

namespace estrain::checkpoint {

// What this program reads. A file is written in the oldest format that has a place for all of it.
constexpr int64_t oldest_format_version = 1;
constexpr int64_t newest_format_version = 5;  // 2 has `algorithms`, 3 the data's `files`, 4 /schedule, 5 /ema
                                              // or /schedule/early_stop

// What holds such elements in a file, and in memory.
h5::Type h5_type(DType dtype);

// Makes everything but the digests; the datasets are those of layout.tensors, in their order.
std::vector<h5::Dataset> create_structure(h5::Group& root, const StateLayout& layout, const CheckpointMeta& meta);

// Sets every dataset's `digest` and the root's `checksum`.
void set_digests(h5::Group& root, std::vector<h5::Dataset>& datasets, const std::vector<uint64_t>& digests,
                 const StateLayout& layout, const CheckpointMeta& meta);

struct Structure {
  CheckpointMeta meta;
  StateLayout layout;             // tensors in the file's order
  std::vector<uint64_t> digests;  // of layout.tensors
  std::vector<uint64_t> offsets;  // of their elements in the file; 0 for an empty tensor
  std::vector<h5::Dataset> datasets;
};

// What a file holds, whether or not its digests are right. Throws Fault::mismatch for a file that is no checkpoint,
// holds tensors that none can hold, or was written in another format.
Structure read_structure(const h5::Group& root);

// Throws Fault::corrupt unless the root's `checksum` is that of its attributes and of the datasets' names, types,
// shapes and digests.
void require_checksum(const h5::Group& root, const Structure& structure);

}  // namespace estrain::checkpoint
