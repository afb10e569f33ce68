#pragma once
// A data set of separate image files of any size. Each is read, decoded (core/image/image.h), cropped and scaled
// (photo_cut.h, antialiased.h) when a reader needs it. Then follow torchvision's ToTensor and Normalize: byte / 255 in
// fp32, minus mean, divided by std, each rounded.
//
// data.channels = 3, the default, repeats a grey channel three times; 1 refuses colours.

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/dataset.h"
#include "core/data/photo_cut.h"

namespace estrain::data {

constexpr uint64_t most_photo_bytes = uint64_t{256} << 20;  // limit for one image file

// The source of the files. Thread-safe.
class PhotoSource {
 public:
  virtual ~PhotoSource() = default;
  virtual int64_t size() const = 0;
  virtual int64_t label(int64_t index) const = 0;
  virtual std::string name(int64_t index) const = 0;  // for messages
  virtual uint64_t bytes(int64_t index) const = 0;    // of its file
  // The file's bytes, in the source's memory or in the calling thread's `scratch`; valid until the thread's next call.
  // Throws Fault::io if the file is unreadable, Fault::corrupt if it changed since the source was opened.
  virtual std::span<const std::byte> read(int64_t index, std::vector<std::byte>& scratch) const = 0;
};

// Throws Fault::corrupt naming the first image whose label is outside of [0, classes).
void require_labels(const PhotoSource& source, int64_t classes);

// The error for read() to throw, naming sample and file.
Error about_photo(const Error& error, const PhotoSource& source, int64_t index);

class PhotoDataset : public Dataset {
 public:
  // Throws Fault::spec if keys of `section` contradict each other.
  PhotoDataset(std::unique_ptr<PhotoSource> source, int64_t classes, const spec::DataSection& section);

  int64_t size() const override { return source_->size(); }
  SampleShape shape() const override { return SampleShape::image(channels_, cut_.size().height, cut_.size().width); }
  int64_t classes() const override { return classes_; }
  // Throws errors about the file, naming sample and file.
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override;

  const PhotoSource& source() const { return *source_; }
  // Throws Fault::corrupt if an image with this header cannot be a sample.
  void require_fit(const image::Header& header, const SampleDraw& draw) const;

 private:
  void show(const image::Image& photo, const SampleDraw& draw, float* out) const;

  std::unique_ptr<PhotoSource> source_;
  int64_t classes_, channels_;
  PhotoCut cut_;
  std::vector<std::array<float, 256>> values_;  // per channel: the value of each byte
};

}  // namespace estrain::data
