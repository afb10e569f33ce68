#pragma once
// Labelled, transformed images: the Dataset for all image formats.

#include <memory>

#include "core/data/formats/dataset.h"
#include "core/data/pixels/image_source.h"
#include "core/data/pixels/image_transform.h"

namespace estrain::data {

class ImageDataset : public Dataset {
 public:
  // Throws Fault::spec if the transforms do not fit the images.
  ImageDataset(std::unique_ptr<ImageSource> source, const spec::DataSection& section)
      : source_(std::move(source)), transform_(source_->layout(), section) {}

  int64_t size() const override { return source_->size(); }
  SampleShape shape() const override { return transform_.shape(); }
  int64_t classes() const override { return source_->classes(); }

  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override {
    thread_local std::vector<std::byte> scratch;
    transform_.apply(source_->pixels(index, scratch), draw, reinterpret_cast<float*>(out_input));
    *out_target = source_->label(index);
  }

 private:
  std::unique_ptr<ImageSource> source_;
  ImageTransform transform_;
};

}  // namespace estrain::data
