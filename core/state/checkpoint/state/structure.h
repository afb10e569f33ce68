#pragma once
// The HDF5 structure of a checkpoint: groups, datasets, links and attributes, by FORMAT.md; without elements.

#include <vector>

#include "core/formats/h5/group.h"
#include "core/state/checkpoint/state/checkpoint_meta.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

constexpr int64_t format_version = 1;

// Returns the HDF5 type of the elements, in a file and in memory.
h5::Type h5_type(DType dtype);

// Creates everything but the digests; returns the datasets of layout.tensors, in order.
std::vector<h5::DatasetObject> create_structure(h5::Group& root, const StateLayout& layout, const CheckpointMeta& meta);

// Sets every dataset's `digest` and the root's `checksum`.
void set_digests(h5::Group& root, std::vector<h5::DatasetObject>& datasets, const std::vector<uint64_t>& digests,
                 const StateLayout& layout, const CheckpointMeta& meta);

struct Structure {
  CheckpointMeta meta;
  StateLayout layout;             // tensors in the file's order
  std::vector<uint64_t> digests;  // of layout.tensors
  std::vector<uint64_t> offsets;  // of the datasets' elements in the file; 0 for an empty tensor
  std::vector<h5::DatasetObject> datasets;
};

// Reads the structure of a file, with right or wrong digests. Throws Fault::mismatch for a file that is not a
// checkpoint, has impossible tensors, or has another format.
Structure read_structure(const h5::Group& root);

// Throws Fault::corrupt unless the root's `checksum` fits its attributes and the datasets' names, types, shapes and
// digests.
void require_checksum(const h5::Group& root, const Structure& structure);

}  // namespace estrain::checkpoint
