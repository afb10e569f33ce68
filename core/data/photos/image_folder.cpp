#include "core/data/photos/image_folder.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/files/python_order.h"

namespace estrain::data {
namespace {

constexpr const char* kFoldersOfClasses =
    "data.path must be a folder with a subfolder of JPEG and PNG files for each class";

Error misplaced(const std::string& what) { return Error(Fault::corrupt, what).advise(kFoldersOfClasses); }

// Others would train on these files: without them the data would be other data, and nobody would know.
void require_readable_images(const FileTree& tree) {
  std::vector<LeftOut::Kind> unread = tree.left_out().kinds();
  std::erase_if(unread, [](const LeftOut::Kind& kind) { return !is_unread_image(kind.name); });
  if (unread.empty()) return;
  throw Error::make(Fault::corrupt, "{}: images of kinds that are not read: {}", tree.root(), in_words(unread))
      .advise("convert them to PNG or JPEG, or take them out of the folder");
}

// The class number of the file `name`.
int32_t label_of(std::string_view name, const FileTree& tree, const std::vector<std::string>& classes) {
  const size_t slash = name.find('/');
  if (slash == name.npos) throw misplaced(fmt::format("{}/{}: an image outside the class folders", tree.root(), name));
  const std::string_view folder = name.substr(0, slash);
  const auto at = std::ranges::lower_bound(classes, folder, python_sorts_before);
  if (at == classes.end() || *at != folder)
    throw misplaced(fmt::format("{}/{}: no class of the training data has this name", tree.root(), folder));
  return static_cast<int32_t>(at - classes.begin());
}

}  // namespace

ImageFolder::ImageFolder(const DataFile& folder, std::vector<std::string> classes)
    : tree_(folder.tree), classes_(std::move(classes)) {
  require_readable_images(*tree_);
  const bool own_classes = classes_.empty();
  if (own_classes) classes_ = tree_->folders();
  if (classes_.empty()) throw misplaced(folder.path + ": it has no subfolders");
  std::vector<bool> occurs(classes_.size(), false);
  for (int64_t i = 0; i < tree_->size(); ++i) {
    labels_.push_back(label_of(tree_->name(i), *tree_, classes_));
    occurs[static_cast<size_t>(labels_.back())] = true;
  }
  const auto empty = std::ranges::find(occurs, false);
  if (own_classes && empty != occurs.end()) {
    throw misplaced(fmt::format("{}/{}: no JPEG or PNG file in the folder of this class", folder.path,
                                classes_[static_cast<size_t>(empty - occurs.begin())]));
  }
}

DataPair open_image_folders(const std::vector<DataFile>& files, const spec::DataSection& section,
                            std::optional<int64_t> classes) {
  auto train = std::make_unique<ImageFolder>(files[0]);
  const std::vector<std::string> names = train->classes();
  const int64_t count = classes.value_or(static_cast<int64_t>(names.size()));
  require_labels(*train, count);
  DataPair pair;
  pair.train = std::make_unique<PhotoDataset>(std::move(train), count, section);
  for (const DataFile& file : files) note_left_out(pair, file.path, file.tree->left_out());
  if (files.size() > 1)
    pair.test = std::make_unique<PhotoDataset>(std::make_unique<ImageFolder>(files[1], names), count, section);
  return pair;
}

}  // namespace estrain::data
