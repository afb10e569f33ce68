#include "core/data/file_names.h"

#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/data/formats/cifar.h"
#include "core/data/formats/idx.h"
#include "core/formats/h5/elsewhere.h"

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

// data.path, and data.test_path if given.
std::vector<FileName> one_or_two(const spec::DataSection& section, FileKind kind, const char* missing) {
  if (section.path.empty()) throw Error(Fault::spec, missing);
  std::vector<FileName> names = {{"training data", section.path, kind}};
  if (!section.test_path.empty()) names.push_back({"test data", section.test_path, kind});
  return names;
}

// Behind the files of the section, those to which they lead.
std::vector<FileName> hdf5_names(const spec::DataSection& section) {
  std::vector<FileName> names =
      one_or_two(section, FileKind::as_it_is, "data.format = \"hdf5\" needs data.path, the training file");
  for (const FileName& name : std::vector<FileName>(names)) {
    int64_t part = 0;
    for (const std::string& path : h5::other_files(name.path))
      names.push_back({fmt::format("{}, part {}", name.what, ++part), path, FileKind::as_it_is});
  }
  return names;
}

std::vector<FileName> voc_names(const spec::DataSection& section) {
  if (section.path.empty())
    throw Error(Fault::spec, "data.format = \"voc\" needs data.path, such as VOCdevkit/VOC2012");
  std::vector<FileName> names = {{"training data", section.path, FileKind::voc}};
  if (!section.test_list.empty())
    names.push_back({"test data", section.test_path.empty() ? section.path : section.test_path, FileKind::voc});
  return names;
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
      return hdf5_names(section);
    case spec::DataFormat::text:
      return one_or_two(section, FileKind::content, "data.format = \"text\" needs data.path, the text's file");
    case spec::DataFormat::tokens:
      return one_or_two(section, FileKind::content, "data.format = \"tokens\" needs data.path, the tokens' file");
    case spec::DataFormat::images:
      return one_or_two(section, FileKind::images,
                        "data.format = \"images\" needs data.path, a folder with a subfolder of images for each class");
    case spec::DataFormat::webdataset:
      return one_or_two(section, FileKind::shards,
                        "data.format = \"webdataset\" needs data.path, a tar file or a folder of them");
    case spec::DataFormat::voc:
      return voc_names(section);
    case spec::DataFormat::synthetic:
      return {};
  }
  throw Error(Fault::bug, "unknown data format");
}

}  // namespace estrain::data
