#pragma once
// An ImageSource has the images of a data file, before any transform, and the labels.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace estrain::data {

enum class PixelType { u8, f32 };

struct ImageLayout {
  PixelType type = PixelType::u8;
  int64_t channels = 0, height = 0, width = 0;

  int64_t elements() const { return channels * height * width; }
  size_t bytes() const { return static_cast<size_t>(elements()) * (type == PixelType::u8 ? 1 : sizeof(float)); }
};

// Without model.classes, the largest label determines the number of classes. This number is limited like model.classes:
// a wrong label, for example 999999999, would need a model larger than memory.
constexpr int64_t most_classes = 1'000'000;

// Thread-safe: readers call pixels() and label() concurrently.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual int64_t size() const = 0;
  virtual ImageLayout layout() const = 0;
  virtual int64_t classes() const = 0;
  // Planes (channel, row, column). `scratch` belongs to the calling thread, for sources that do not hold images in
  // memory; the result is valid until the next call with the same scratch.
  virtual const std::byte* pixels(int64_t index, std::vector<std::byte>& scratch) const = 0;
  virtual int64_t label(int64_t index) const = 0;
};

// Images in memory, with a constant distance between the images of a file.
class ImageTable : public ImageSource {
 public:
  struct Block {
    std::shared_ptr<const std::byte> owner;  // keeps the memory alive
    const std::byte* first;                  // image i starts at first + i * stride
    size_t stride;
    bool is_interleaved = false;  // rows of pixels, a pixel's channels together, instead of planes
  };

  explicit ImageTable(const ImageLayout& layout) : layout_(layout) {}

  // Appends labels.size() images. `label_source` names the labels in messages. Until set_classes, classes() is the
  // largest label plus 1.
  void append(Block block, const std::vector<int64_t>& labels, std::string label_source);

  // Throws Fault::corrupt with file, index and value of the first label outside [0, classes).
  void set_classes(int64_t classes);
  // Sets the number of classes from the labels. Throws as set_classes if the number would exceed most_classes.
  void take_classes_of_labels();

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  ImageLayout layout() const override { return layout_; }
  int64_t classes() const override { return classes_; }
  const std::byte* pixels(int64_t index, std::vector<std::byte>& scratch) const override;
  int64_t label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }

 private:
  struct Segment {
    int64_t begin;  // index of the segment's first image
    Block block;
    std::string label_source;
  };
  const Segment& segment_of(int64_t index) const;
  std::string place_of(int64_t index) const;  // "FILE: label 7 of sample 3"

  ImageLayout layout_;
  int64_t classes_ = 0;
  std::vector<Segment> segments_;
  std::vector<int64_t> labels_;
};

}  // namespace estrain::data
