#pragma once
// PASCAL VOC, as its archives unpack: pictures and where things are in them.
//
//   JPEGImages/NAME.jpg       a picture (.jpeg and .png are taken, too)
//   Annotations/NAME.xml      its boxes (voc_annotation.h)
//   ImageSets/Main/LIST.txt   the names that make a set, one a line, in the order of the samples
//
// A sample is three arrays, under the names that a program's inputs must have:
//
//   images   float32 [channels, height, width]: what photo_pixels.h makes of the picture
//   boxes    float32 [data.boxes, 4]: left, top, right, bottom as parts of what is seen, from 0 to 1
//   labels   int64 [data.boxes]: the class of each box, its place in data.names
//
// Boxes stand in the order of the file; behind them boxes of zeros with the class -1. They go with the picture: cut,
// scaled, mirrored; clipped at its edges, and left out where their centre is cut off. Objects that are "difficult" are
// left out unless data.difficult says otherwise.

#include <memory>
#include <string>
#include <vector>

#include "core/data/formats/format.h"
#include "core/data/photos/photo_files.h"
#include "core/data/photos/voc_annotation.h"
#include "core/data/pixels/photo_pixels.h"

namespace estrain::data {

class VocFolder : public PhotoFiles {
 public:
  // Throws Fault::corrupt where the list is absent or empty, or names a picture that is not there or has no annotation.
  VocFolder(const DataFile& folder, const std::string& list);

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  std::string name(int64_t index) const override { return tree_->path(at(index).picture); }
  uint64_t bytes(int64_t index) const override { return tree_->bytes(at(index).picture); }
  std::span<const std::byte> read(int64_t index, std::vector<std::byte>& scratch) const override {
    return read_listed(*tree_, at(index).picture, most_photo_bytes, scratch);
  }
  std::span<const std::byte> read_annotation(int64_t index, std::vector<std::byte>& scratch) const {
    return read_listed(*tree_, at(index).annotation, most_annotation_bytes, scratch);
  }

 private:
  struct Sample {
    int64_t picture, annotation;  // places in the tree
  };
  const Sample& at(int64_t index) const { return samples_[static_cast<size_t>(index)]; }

  std::shared_ptr<const FileTree> tree_;
  std::vector<Sample> samples_;
};

// Where a box of the photo is in what is seen, from 0 to 1. False: its centre is cut off.
bool move_box(const LabelledBox& box, const Cut& cut, float* out);

class VocDataset : public Dataset {
 public:
  // Throws as VocFolder and PhotoPixels.
  VocDataset(const DataFile& folder, const std::string& list, const spec::DataSection& section);

  int64_t size() const override { return folder_.size(); }
  SampleShape shape() const override;
  int64_t classes() const override { return static_cast<int64_t>(names_.size()); }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override;
  // Throws what is wrong with picture or annotation, naming sample and file.
  void read_fields(int64_t index, const SampleDraw& draw, std::span<std::byte* const> out) const override;

  const VocFolder& folder() const { return folder_; }
  // Throws Fault::corrupt where a picture like this, with its annotation, makes no sample.
  void require_fit(int64_t index, const image::Header& header, const SampleDraw& draw) const;

 private:
  std::vector<LabelledBox> boxes_of(int64_t index, const image::Size& picture) const;

  VocFolder folder_;
  PhotoPixels pixels_;
  std::vector<std::string> names_;
  int64_t most_boxes_;
  bool takes_difficult_;
};

const Format& voc_format();

}  // namespace estrain::data
