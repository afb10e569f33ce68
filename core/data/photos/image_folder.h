#pragma once
// Reads ImageNet's layout like torchvision's ImageFolder: a folder with a subfolder for each class, with images
// (photo_files.h) at any depth. Classes are numbered in the order of the names, samples in the order of file_tree.h.
// Images of other kinds are refused; other files are left out.

#include <memory>
#include <string>
#include <vector>

#include "core/data/formats/format.h"
#include "core/data/photos/photos.h"

namespace estrain::data {

class ImageFolder : public PhotoSource {
 public:
  // `classes`: names by number; empty: the subfolders; each subfolder must contain an image. Throws Fault::corrupt if
  // the folder has no class, a subfolder is not a class, an image is outside the subfolders, or an image is of an
  // unread kind.
  explicit ImageFolder(const DataFile& folder, std::vector<std::string> classes = {});

  const std::vector<std::string>& classes() const { return classes_; }
  int64_t size() const override { return tree_->size(); }
  int64_t label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }
  std::string name(int64_t index) const override { return tree_->path(index); }
  uint64_t bytes(int64_t index) const override { return tree_->bytes(index); }
  std::span<const std::byte> read(int64_t index, std::vector<std::byte>& scratch) const override {
    return read_listed(*tree_, index, most_photo_bytes, scratch);
  }

 private:
  std::shared_ptr<const FileTree> tree_;
  std::vector<std::string> classes_;
  std::vector<int32_t> labels_;
};

const Format& image_folder_format();

}  // namespace estrain::data
