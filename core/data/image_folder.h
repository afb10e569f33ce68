#pragma once
// ImageNet's layout, read as torchvision's ImageFolder does: a folder with a folder for each class, with JPEG and PNG
// files in it or in folders below it. Classes are numbered in the order of their names' bytes, samples in the order of
// file_tree.h. Files with other endings are passed over.

#include <memory>
#include <string>
#include <vector>

#include "core/data/data_files.h"
#include "core/data/photos.h"

namespace estrain::data {

class ImageFolder : public PhotoSource {
 public:
  // `classes`: names by number; empty: those of this folder, in which there must be an image each. Throws
  // Fault::corrupt where there is no class, a folder that is none, or an image beside the folders.
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

// Training images in the first of `files`; in the second one, where there is one, test images of the same classes.
DataPair open_image_folders(const std::vector<DataFile>& files, const spec::DataSection& section,
                            std::optional<int64_t> classes);

}  // namespace estrain::data
