#pragma once
// A PhotoDataset is a data set of encoded images of any size, each with a class. An image is read, decoded
// (core/formats/image/image.h) and transformed for the model (photo_pixels.h) when a reader needs the sample.

#include <memory>

#include "core/data/formats/dataset.h"
#include "core/data/photos/photo_files.h"
#include "core/data/pixels/photo_pixels.h"

namespace estrain::data {

// Thread-safe, as PhotoFiles.
class PhotoSource : public PhotoFiles {
 public:
  virtual int64_t label(int64_t index) const = 0;  // as the files tell: require_labels() checks the range
};

std::vector<int64_t> labels_of(const PhotoSource& source);  // of all images, in order

// Throws Fault::corrupt naming the first image with a label outside of [0, classes).
void require_labels(const PhotoSource& source, int64_t classes);

// Adds a note to the pair if a source left out files of the data at `path`.
void note_left_out(DataPair& pair, const std::string& path, const LeftOut& left_out);

class PhotoDataset : public Dataset {
 public:
  // Does not check labels. Throws Fault::spec where keys of `section` contradict each other.
  PhotoDataset(std::unique_ptr<PhotoSource> source, int64_t classes, const spec::DataSection& section)
      : source_(std::move(source)), classes_(classes), pixels_(section) {}

  int64_t size() const override { return source_->size(); }
  SampleShape shape() const override { return pixels_.shape(); }
  int64_t classes() const override { return classes_; }
  std::vector<int64_t> labels() const override { return labels_of(*source_); }
  const PhotoSource& source() const { return *source_; }
  // As Dataset::read(); the input is float32. Throws the fault of the file, naming sample and file.
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override;

 private:
  std::unique_ptr<PhotoSource> source_;
  int64_t classes_;
  PhotoPixels pixels_;
};

}  // namespace estrain::data
