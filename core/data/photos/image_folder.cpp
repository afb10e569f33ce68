#include "core/data/photos/image_folder.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/formats/holdout.h"
#include "core/data/photos/photo_scan.h"
#include "core/job/spec/defaults.h"

namespace estrain::data {
namespace {

constexpr const char* kFoldersOfClasses = "data.path must be a folder with a subfolder of images for each class";

Error misplaced(const std::string& what) { return Error(Fault::corrupt, what).advise(kFoldersOfClasses); }

// Other programs train on these files: without the files the data would be different data, without a word.
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
    throw misplaced(fmt::format("{}/{}: no image ({}) in the folder of this class", folder.path,
                                classes_[static_cast<size_t>(empty - occurs.begin())], photo_endings_in_words()));
  }
}

namespace {

class ImageFolderFormat : public Format {
 public:
  std::vector<FileName> file_names(const spec::DataSection& section) const override {
    return one_or_two(section, {"", "", FileKind::listed, photo_endings},
                      "data.format = \"images\" needs data.path, a folder with a subfolder of images for each class");
  }

  // The test images are of the classes of the training images.
  DataPair open(const DataRequest& request, const std::vector<DataFile>& files) const override {
    auto train = std::make_unique<ImageFolder>(files[0]);
    const std::vector<std::string> names = train->classes();
    const int64_t count = request.classes.value_or(static_cast<int64_t>(names.size()));
    require_labels(*train, count);
    DataPair pair;
    const std::vector<int64_t> labels = labels_of(*train);
    pair.train = std::make_unique<PhotoDataset>(std::move(train), count, request.section);
    for (const DataFile& file : files) note_left_out(pair, file.path, file.tree->left_out());
    if (files.size() > 1) {
      pair.test =
          std::make_unique<PhotoDataset>(std::make_unique<ImageFolder>(files[1], names), count, request.section);
    } else {
      hold_out(pair, labels, spec::holdout(request.section), request.seed);
    }
    return pair;
  }

  void scan(const DataRequest& request, DataScan& scan) const override {
    std::vector<std::string> classes;
    const auto open = [&](const DataFile& file, bool is_training) -> OpenedPhotos {
      auto folder = std::make_unique<ImageFolder>(file, is_training ? std::vector<std::string>() : classes);
      classes = folder->classes();
      const std::string what = fmt::format("{} images in {} classes", folder->size(), classes.size());
      return {std::move(folder), what, file.tree->left_out()};
    };
    scan_photos(request, file_names(request.section), open, "images end in " + photo_endings_in_words(), scan);
  }

  bool is_set(const std::filesystem::path& folder) const override {
    int looked_at = 0;
    std::error_code refused;
    for (const auto& entry : std::filesystem::directory_iterator(folder, refused)) {
      if (entry.is_directory(refused) && has_file(entry.path(), photo_endings)) return true;
      if (++looked_at == most_entries_looked_at) break;
    }
    return false;
  }
};

}  // namespace

const Format& image_folder_format() {
  static const ImageFolderFormat format;
  return format;
}

}  // namespace estrain::data
