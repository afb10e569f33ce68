#include "core/data/format_table.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/formats/cifar.h"
#include "core/data/formats/hdf5.h"
#include "core/data/formats/idx.h"
#include "core/data/formats/synthetic.h"
#include "core/data/formats/tokens.h"
#include "core/data/photos/image_folder.h"
#include "core/data/photos/voc.h"
#include "core/data/photos/webdataset.h"

namespace estrain::data {
namespace {

constexpr FormatRow kTable[] = {
    {spec::DataFormat::idx, idx_format},
    {spec::DataFormat::cifar10, cifar10_format},
    {spec::DataFormat::cifar100, cifar100_format},
    {spec::DataFormat::hdf5, hdf5_format},
    {spec::DataFormat::tokens, tokens_format},
    {spec::DataFormat::voc, voc_format},
    {spec::DataFormat::webdataset, webdataset_format},
    {spec::DataFormat::images, image_folder_format},
    {spec::DataFormat::text, text_format},
    {spec::DataFormat::synthetic, synthetic_format},
};

}  // namespace

const char* const recognised_data =
    "known are: a folder with IDX files (train-images-idx3-ubyte …), with CIFAR's .bin files, with train.h5, with "
    "nanoGPT's train.bin and val.bin, with VOC's JPEGImages and Annotations, with .tar files, or with a folder of JPEG "
    "and PNG files for each class (or "
    "train/ "
    "and val/ with these); an HDF5 file; a tar file; a .npy file; a text file";

std::span<const FormatRow> format_table() { return kTable; }

const Format& format_of(const spec::DataSection& section) {
  const auto* row = std::ranges::find(kTable, section.format, &FormatRow::name);
  if (row == std::end(kTable)) throw Error(Fault::bug, "unknown data format");
  return row->format();
}

std::vector<FileName> file_names(const spec::DataSection& section) { return format_of(section).file_names(section); }

}  // namespace estrain::data
