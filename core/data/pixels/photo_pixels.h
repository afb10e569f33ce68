#pragma once
// From a photo of any size to a model's input: cut and scaled (photo_cut.h, antialiased.h), then torchvision's ToTensor
// and Normalize: byte / 255 in fp32, minus mean, divided by std, each rounded.
//
// data.channels = 3, the default, repeats a grey image three times; 1 refuses colours.

#include <array>
#include <vector>

#include "core/data/pixels/photo_cut.h"
#include "core/data/sampling/sample_shape.h"

namespace estrain::data {

// Immutable, hence thread-safe.
class PhotoPixels {
 public:
  // Throws Fault::spec where keys of `section` contradict each other.
  explicit PhotoPixels(const spec::DataSection& section);

  SampleShape shape() const { return SampleShape::image(channels_, cut_.size().height, cut_.size().width); }
  // Throws Fault::corrupt where an image like this makes no sample.
  void require_fit(const image::Header& header, const SampleDraw& draw) const;
  // Writes shape().elements() numbers, planes; returns what the photo was cut to. Throws as require_fit().
  Cut show(const image::Image& photo, const SampleDraw& draw, float* out) const;

 private:
  int64_t channels_;
  PhotoCut cut_;
  std::vector<std::array<float, 256>> values_;  // per channel: of a byte
};

}  // namespace estrain::data
