#pragma once
// IDX, the format of MNIST and its relatives: big-endian, with sizes of 32 bits. A name in ".gz" is decompressed.
// 08 means unsigned bytes; the number of dimensions follows.
//
//   images   00 00 08 03 | count | rows | columns | one byte per pixel
//            00 00 08 04 | count | channels | rows | columns | one byte per value
//   labels   00 00 08 01 | count | one byte per label

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/data/files/data_files.h"
#include "core/data/pixels/image_source.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

// The big-endian 32-bit number at `at`, as in IDX headers.
inline uint32_t big_endian(const std::byte* at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(at[i]);
  return value;
}

struct IdxFiles {
  std::string images, labels;
};

// The files named by data.images and data.labels, or those with standard names in the folder data.path
// ("train-images-idx3-ubyte" and so on, with or without ".gz"). Test files: empty if neither is given. Throws Fault::io
// if a standard file is missing, Fault::spec if only one of the two keys is given.
IdxFiles idx_train_files(const spec::DataSection& section);
std::optional<IdxFiles> idx_test_files(const spec::DataSection& section);

// Throws Fault::corrupt as data::open does.
std::unique_ptr<ImageTable> read_idx(const DataFile& images, const DataFile& labels);

}  // namespace estrain::data
