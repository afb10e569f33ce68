#pragma once
// Reads IDX, the format of MNIST and relatives: big-endian, with sizes of 32 bits. A name in ".gz" is decompressed. 08
// means unsigned bytes; the number of dimensions follows.
//
//   images   00 00 08 03 | count | rows | columns | a byte per pixel
//            00 00 08 04 | count | channels | rows | columns | a byte per value
//   labels   00 00 08 01 | count | a byte per label

#include "core/data/formats/format.h"

namespace estrain::data {

const Format& idx_format();

}  // namespace estrain::data
