#pragma once
// Reads PASCAL VOC, as the archives unpack: pictures, and the boxes of the things in the pictures.
//
//   JPEGImages/NAME.jpg       a picture (.jpeg and .png are taken, too)
//   Annotations/NAME.xml      the picture's boxes: XML with an <object> for each thing, with <name>, <bndbox> and
//                             <difficult>. Anything else in the file is passed over
//   ImageSets/Main/LIST.txt   the names of a set's pictures, one a line, in the order of the samples
//
// A sample is three arrays. A program's inputs must have the arrays' names:
//
//   images   float32 [channels, height, width]: the picture as made by photo_pixels.h
//   boxes    float32 [data.boxes, 4]: left, top, right, bottom as parts of the cut picture, from 0 to 1
//   labels   int64 [data.boxes]: the class of each box, a place in data.names
//
// Boxes stand in the order of the file, followed by boxes of zeros with the class -1. The boxes are cut, scaled and
// mirrored with the picture, and clipped at the edges. A box is left out if the centre is cut off. "Difficult" objects
// are left out unless data.difficult is true.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/formats/format.h"
#include "core/data/photos/photo_files.h"
#include "core/data/pixels/photo_pixels.h"
#include "core/formats/image/image.h"

namespace estrain::data {

constexpr uint64_t most_annotation_bytes = uint64_t{1} << 20;

// Edges in pixels from the picture's left and top: 0 is the edge itself. VOC's edges are the numbers of the first and
// the last pixel, from 1 on.
struct LabelledBox {
  double left = 0, top = 0, right = 0, bottom = 0;
  int64_t label = 0;  // place in the list of names
  bool is_difficult = false;

  bool operator==(const LabelledBox&) const = default;
};

// The twenty classes of VOC, in the alphabet's order.
const std::vector<std::string>& voc_names();

// The boxes of an annotation, in the order of the file. Throws Fault::corrupt where the text is not XML of this form,
// and for an object with a name outside of `names` or with a box not inside a picture of this size.
std::vector<LabelledBox> read_annotation(std::string_view xml, const std::vector<std::string>& names,
                                         const image::Size& picture);

class VocFolder : public PhotoFiles {
 public:
  // Throws Fault::corrupt if the list is absent or empty, or names an absent picture or a picture without an
  // annotation.
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

// Writes the place of a photo's box in the cut, from 0 to 1. Returns false if the centre of the box is cut off.
bool move_box(const LabelledBox& box, const Cut& cut, float* out);

class VocDataset : public Dataset {
 public:
  // Throws as VocFolder and PhotoPixels.
  VocDataset(const DataFile& folder, const std::string& list, const spec::DataSection& section);

  int64_t size() const override { return folder_.size(); }
  SampleShape shape() const override;
  int64_t classes() const override { return static_cast<int64_t>(names_.size()); }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override;
  // Throws the fault of the picture or annotation, naming sample and file.
  void read_fields(int64_t index, const SampleDraw& draw, std::span<std::byte* const> out) const override;

  const VocFolder& folder() const { return folder_; }
  // Throws Fault::corrupt if a picture with this header makes no sample with its annotation.
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
