#include "core/data/data_files.h"

#include <future>
#include <utility>

#include "core/base/error.h"
#include "core/data/cifar.h"
#include "core/data/idx.h"

namespace estrain::data {
namespace {

std::vector<FileName> idx_names(const spec::DataSection& section) {
  const IdxFiles train = idx_train_files(section);
  std::vector<FileName> names = {{"training images", train.images}, {"training labels", train.labels}};
  if (const std::optional<IdxFiles> test = idx_test_files(section)) {
    names.push_back({"test images", test->images});
    names.push_back({"test labels", test->labels});
  }
  return names;
}

std::vector<FileName> cifar_names(const spec::DataSection& section, Cifar kind) {
  if (section.path.empty()) throw Error(Fault::spec, "CIFAR data needs data.path, the folder of the .bin files");
  std::vector<FileName> names;
  for (const std::string& name : cifar_train_names(kind)) names.push_back({name, section.path + "/" + name});
  names.push_back({cifar_test_name(kind), section.path + "/" + cifar_test_name(kind)});
  return names;
}

// data.path, and data.test_path where it is given.
std::vector<FileName> one_or_two(const spec::DataSection& section, bool as_it_is, const char* missing) {
  if (section.path.empty()) throw Error(Fault::spec, missing);
  std::vector<FileName> names = {{"training data", section.path, as_it_is}};
  if (!section.test_path.empty()) names.push_back({"test data", section.test_path, as_it_is});
  return names;
}

FileBytes open_one(const FileName& name) {
  return name.as_it_is ? FileBytes::map(name.path) : FileBytes::open(name.path);
}

}  // namespace

std::vector<FileName> file_names(const spec::DataSection& section) {
  switch (section.format) {
    case spec::DataFormat::idx:
      return idx_names(section);
    case spec::DataFormat::cifar10:
      return cifar_names(section, Cifar::ten);
    case spec::DataFormat::cifar100:
      return cifar_names(section, Cifar::hundred);
    case spec::DataFormat::hdf5:
      return one_or_two(section, true, "data.format = \"hdf5\" needs data.path, the training file");
    case spec::DataFormat::text:
      return one_or_two(section, false, "data.format = \"text\" needs data.path, the text's file");
    case spec::DataFormat::synthetic:
      return {};
  }
  throw Error(Fault::bug, "unknown data format");
}

std::vector<DataFile> open_files(const std::vector<FileName>& names) {
  std::vector<std::future<FileBytes>> opened;
  for (const FileName& name : names) {
    const bool aside = name.path.ends_with(".gz") && &name != &names.front();
    opened.push_back(std::async(aside ? std::launch::async : std::launch::deferred, open_one, name));
  }
  std::vector<DataFile> files;
  for (size_t i = 0; i < names.size(); ++i) files.push_back({names[i].what, names[i].path, opened[i].get()});
  return files;
}

}  // namespace estrain::data
