#pragma once
// The binary versions of CIFAR-10 and CIFAR-100. A file is a sequence of records; images are 3 x 32 x 32 bytes, plane
// by plane.
//
//   CIFAR-10    data_batch_1.bin to data_batch_5.bin, test_batch.bin    label | 3072 pixels
//   CIFAR-100   train.bin, test.bin                                     coarse label | fine label | 3072 pixels
//
// CIFAR-100's fine labels are used. A file may have any number of records.

#include "core/data/formats/format.h"

namespace estrain::data {

const Format& cifar10_format();
const Format& cifar100_format();

}  // namespace estrain::data
