#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/data/file_names.h"
#include "core/data/formats/cifar.h"
#include "core/data/formats/dataset.h"
#include "core/data/formats/hdf5_arrays.h"
#include "core/data/formats/hdf5_images.h"
#include "core/data/formats/idx.h"
#include "core/data/formats/image_dataset.h"
#include "core/data/formats/synthetic.h"
#include "core/data/formats/text.h"
#include "core/data/formats/token_windows.h"
#include "core/data/photos/image_folder.h"
#include "core/data/photos/voc.h"
#include "core/data/photos/webdataset.h"
#include "core/formats/h5/filters.h"

namespace estrain::data {
namespace {

using Classes = std::optional<int64_t>;

struct Tables {
  std::unique_ptr<ImageTable> train, test;
};

Tables idx_tables(const std::vector<DataFile>& files) {
  return {read_idx(files[0], files[1]), files.size() > 2 ? read_idx(files[2], files[3]) : nullptr};
}

// The last file has the test set.
Tables cifar_tables(const std::vector<DataFile>& files, Cifar kind) {
  const std::span all(files);
  return {read_cifar(kind, all.first(files.size() - 1)), read_cifar(kind, all.last(1))};
}

// The files are the training file, the test file where there is one, then those to which they lead.
Tables hdf5_tables(const std::vector<DataFile>& files, const spec::DataSection& section) {
  const bool has_test = !section.test_path.empty();
  return {read_hdf5_images(files[0], section.layout), has_test ? read_hdf5_images(files[1], section.layout) : nullptr};
}

DataPair open_hdf5_arrays(const spec::DataSection& section, const std::vector<DataFile>& files,
                          const std::vector<std::string>& names) {
  refuse_transforms(section, names);
  DataPair pair;
  pair.train = read_hdf5_arrays(files[0], names);
  if (!section.test_path.empty()) pair.test = read_hdf5_arrays(files[1], names);
  return pair;
}

// HDF5 opens files again, by their paths.
void require_unchanged(const std::vector<DataFile>& files) {
  for (const DataFile& file : files)
    if (FileStamp::of(file.path) != file.content.stamp)
      throw Error::make(Fault::io, "{}: changed while it was read", file.path).advise("try again");
}

DataPair images(Tables tables, const spec::DataSection& section, Classes classes) {
  if (classes) {
    tables.train->set_classes(*classes);
  } else {
    tables.train->take_classes_of_labels();
  }
  if (tables.test) tables.test->set_classes(tables.train->classes());
  DataPair pair;
  pair.train = std::make_unique<ImageDataset>(std::move(tables.train), section);
  if (tables.test) pair.test = std::make_unique<ImageDataset>(std::move(tables.test), section);
  return pair;
}

struct OpenOptions {
  int64_t text_context;
  uint64_t seed;
  Classes classes;
  const std::vector<std::string>& arrays;
};

DataPair open_unchecked(const spec::DataSection& section, const std::vector<DataFile>& files,
                        const OpenOptions& options) {
  switch (section.format) {
    case spec::DataFormat::idx:
      return images(idx_tables(files), section, options.classes);
    case spec::DataFormat::cifar10:
      return images(cifar_tables(files, Cifar::ten), section, options.classes);
    case spec::DataFormat::cifar100:
      return images(cifar_tables(files, Cifar::hundred), section, options.classes);
    case spec::DataFormat::hdf5:
      if (!options.arrays.empty()) return open_hdf5_arrays(section, files, options.arrays);
      return images(hdf5_tables(files, section), section, options.classes);
    case spec::DataFormat::text:
      return open_text(files,
                       {.holdout = section.holdout, .context = options.text_context, .classes = options.classes});
    case spec::DataFormat::tokens:
      return open_tokens(files, {.holdout = section.holdout,
                                 .context = options.text_context,
                                 .type = section.token_type,
                                 .classes = options.classes});
    case spec::DataFormat::images:
      return open_image_folders(files, section, options.classes);
    case spec::DataFormat::webdataset:
      return open_webdataset(files, section, options.classes);
    case spec::DataFormat::voc:
      return open_voc(files, section);
    case spec::DataFormat::synthetic:
      return open_synthetic(section, options.seed, options.classes);
  }
  throw Error(Fault::bug, "unknown data format");
}

// The test set is in the last file.
void require_samples(const DataPair& pair) {
  if (pair.train->size() == 0)
    throw Error::make(Fault::corrupt, "data: {}: the training set is empty", pair.files.front().path);
  if (pair.test && pair.test->size() == 0) {
    throw Error::make(Fault::corrupt, "data: {}: the test set is empty, so there is nothing to evaluate",
                      pair.files.back().path)
        .advise("give a test set with samples, or remove the keys of data that name it");
  }
}

std::string describe(const SampleShape& shape) { return fmt::format("[{}]", fmt::join(shape.dims(), ", ")); }

}  // namespace

void Dataset::read_fields(int64_t, const SampleDraw&, std::span<std::byte* const>) const {
  throw Error(Fault::bug, "a data set of one array was asked for several");
}

DataPair open(const spec::DataSection& section, int64_t text_context, uint64_t seed, Classes classes,
              const std::vector<std::string>& arrays) {
  DataPair pair = with_context("data", [&] {
    if (section.plugins) h5::allow_plugins();
    std::vector<DataFile> files = open_files(file_names(section));
    DataPair opened = open_unchecked(section, files, {text_context, seed, classes, arrays});
    if (section.format == spec::DataFormat::hdf5) require_unchanged(files);
    opened.files = std::move(files);
    return opened;
  });
  require_samples(pair);
  if (pair.test && pair.train->shape().kind == SampleShape::Kind::fields) {
    require_same_arrays(pair.train->shape(), pair.test->shape());
  } else if (pair.test && pair.test->shape() != pair.train->shape()) {
    throw Error::make(Fault::mismatch, "data: training samples have shape {}, test samples {}",
                      describe(pair.train->shape()), describe(pair.test->shape()))
        .advise("set data.resize or data.crop to give both the same size");
  }
  return pair;
}

}  // namespace estrain::data
