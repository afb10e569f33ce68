#pragma once
// The binary versions of CIFAR-10 and CIFAR-100. A file is a sequence of records; images are 3 x 32 x 32 bytes, plane
// by plane.
//
//   CIFAR-10    data_batch_1.bin to data_batch_5.bin, test_batch.bin    label | 3072 pixels
//   CIFAR-100   train.bin, test.bin                                     coarse label | fine label | 3072 pixels
//
// CIFAR-100's fine labels are used. A file may have any number of records.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/data/files/data_files.h"
#include "core/data/pixels/image_source.h"

namespace estrain::data {

enum class Cifar { ten, hundred };

inline constexpr ImageLayout kCifarLayout{PixelType::u8, 3, 32, 32};

std::vector<std::string> cifar_train_names(Cifar kind);
std::string cifar_test_name(Cifar kind);

// Throws Fault::corrupt as data::open does.
std::unique_ptr<ImageTable> read_cifar(Cifar kind, std::span<const DataFile> files);

}  // namespace estrain::data
