#include <fmt/ranges.h>

#include <future>

#include "core/base/error.h"
#include "core/data/cifar.h"
#include "core/data/dataset.h"
#include "core/data/hdf5_images.h"
#include "core/data/idx.h"
#include "core/data/image_dataset.h"
#include "core/data/synthetic.h"
#include "core/data/text.h"

namespace estrain::data {
namespace {

using Classes = std::optional<int64_t>;

struct Tables {
  std::unique_ptr<ImageTable> train, test;
};

Tables open_idx(const spec::DataSection& section) {
  const IdxFiles train_files = idx_train_files(section);
  const std::optional<IdxFiles> test_files = idx_test_files(section);
  std::future<std::unique_ptr<ImageTable>> test;  // decompressed beside the training set
  if (test_files) test = std::async(std::launch::async, [&] { return read_idx(*test_files); });
  Tables tables{read_idx(train_files), nullptr};
  if (test_files) tables.test = test.get();
  return tables;
}

Tables open_cifar(const spec::DataSection& section, Cifar kind) {
  if (section.path.empty()) throw Error(Fault::spec, "CIFAR data needs data.path, the folder of the .bin files");
  return {read_cifar_train(kind, section.path), read_cifar_test(kind, section.path)};
}

Tables open_hdf5(const spec::DataSection& section) {
  if (section.path.empty()) throw Error(Fault::spec, "data.format = \"hdf5\" needs data.path, the training file");
  return {read_hdf5_images(section.path), section.test_path.empty() ? nullptr : read_hdf5_images(section.test_path)};
}

DataPair images(Tables tables, const spec::DataSection& section, Classes classes) {
  tables.train->set_classes(classes.value_or(tables.train->classes()));
  if (tables.test) tables.test->set_classes(tables.train->classes());
  DataPair pair;
  pair.train = std::make_unique<ImageDataset>(std::move(tables.train), section);
  if (tables.test) pair.test = std::make_unique<ImageDataset>(std::move(tables.test), section);
  return pair;
}

DataPair open_unchecked(const spec::DataSection& section, int64_t text_context, uint64_t seed, Classes classes) {
  switch (section.format) {
    case spec::DataFormat::idx:
      return images(open_idx(section), section, classes);
    case spec::DataFormat::cifar10:
      return images(open_cifar(section, Cifar::ten), section, classes);
    case spec::DataFormat::cifar100:
      return images(open_cifar(section, Cifar::hundred), section, classes);
    case spec::DataFormat::hdf5:
      return images(open_hdf5(section), section, classes);
    case spec::DataFormat::text:
      return open_text(section, text_context, classes);
    case spec::DataFormat::synthetic:
      return open_synthetic(section, seed, classes);
  }
  throw Error(Fault::bug, "unknown data format");
}

std::string describe(const SampleShape& shape) { return fmt::format("[{}]", fmt::join(shape.dims(), ", ")); }

}  // namespace

DataPair open(const spec::DataSection& section, int64_t text_context, uint64_t seed, Classes classes) {
  DataPair pair = with_context("data", [&] { return open_unchecked(section, text_context, seed, classes); });
  if (pair.train->size() == 0) throw Error(Fault::corrupt, "data: the training set is empty");
  if (pair.test && pair.test->shape() != pair.train->shape()) {
    throw Error::make(Fault::mismatch, "data: training samples have shape {}, test samples {}",
                      describe(pair.train->shape()), describe(pair.test->shape()))
        .advise("set data.resize or data.crop to bring both to one size");
  }
  return pair;
}

}  // namespace estrain::data
