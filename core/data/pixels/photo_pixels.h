#pragma once
// Makes a model's input from a photo of any size: cut and scaled (PhotoCut, antialiased.h), changed at random in
// training (rand_augment.h, then jitter.h), then torchvision's ToTensor and Normalize: byte / 255 in fp32, minus mean,
// divided by std, each rounded; a rectangle erased in training (erasing.h).
//
// data.channels = 3, the default, repeats a grey image three times; 1 refuses colours. With data.orient, the photo is
// upright before anything else.

#include <array>
#include <cstdint>
#include <vector>

#include "core/data/pixels/antialiased.h"
#include "core/data/pixels/erasing.h"
#include "core/data/pixels/jitter.h"
#include "core/data/pixels/rand_augment.h"
#include "core/data/sampling/augmentation.h"
#include "core/data/sampling/sample_shape.h"
#include "core/formats/image/image.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

struct Cut {
  Resizing resizing;
  bool mirrored = false;
};

// Chooses the part of a photo for a sample, and the scaled size: torchvision's rules for images of any size. Immutable,
// hence thread-safe.
//
//   training with data.scale   RandomResizedCrop: up to ten tries of a part of the area between scale[0] and scale[1],
//                              with width / height between ratio[0] and ratio[1] (evenly on the logarithm), until a
//                              part fits; then at an even random place. Else the largest part from the centre with a
//                              ratio in range. Scaled to data.crop
//   otherwise                  Resize: to data.resize = [height, width], or [side]: the shorter side gets this length
//                              and the longer side gets side * longer / shorter, rounded down. Then data.crop: at a
//                              random place in training (RandomCrop), from the centre in evaluation (CenterCrop)
//   training with data.flip    mirrored with probability 1/2 (RandomHorizontalFlip)
//
// Random words come from SampleDraw, so a cut depends only on (seed, epoch, sample, size of the photo). Try t uses
// words_of_cut(t): area, ratio, row, column. Numbers between bounds, including the exponential, are computed with IEEE
// double operations alone: the same on every machine.
class PhotoCut {
 public:
  // Throws Fault::spec if the keys do not determine a size.
  explicit PhotoCut(const spec::DataSection& data);

  image::Size size() const { return size_; }  // of the result
  // Throws Fault::corrupt if the scaled photo is smaller than the crop.
  Cut of(const image::Size& photo, const SampleDraw& draw) const;

 private:
  image::Size scaled(const image::Size& photo) const;
  Rectangle random_part(const image::Size& photo, const SampleDraw& draw) const;
  Rectangle central_part(const image::Size& photo) const;

  std::vector<int64_t> resize_;
  image::Size size_;
  std::vector<double> scale_;
  double least_ratio_, most_ratio_;
  double log_ratio_;  // of the largest to the smallest ratio
  bool flip_;
};

// Immutable, hence thread-safe.
class PhotoPixels {
 public:
  // Throws Fault::spec where keys of `section` contradict each other, and as RandAugment::require_fit().
  explicit PhotoPixels(const spec::DataSection& section);

  SampleShape shape() const { return SampleShape::image(channels_, cut_.size().height, cut_.size().width); }
  // How a photo is to be decoded for show().
  image::Orientation orientation() const { return orientation_; }
  // Throws Fault::corrupt where an image like this makes no sample.
  void require_fit(const image::Header& header, const SampleDraw& draw) const;
  // Writes shape().elements() numbers, planes; returns the cut of the photo. Throws as require_fit().
  Cut show(const image::Image& photo, const SampleDraw& draw, float* out) const;

 private:
  // Writes the cut-out pixels, mirrored or not, as numbers.
  void write_planes(const std::vector<uint8_t>& shown, int64_t channels, bool is_mirrored, float* out) const;

  int64_t channels_;
  image::Orientation orientation_;
  PhotoCut cut_;
  RandAugment rand_augment_;
  Jitter jitter_;
  Erasing erasing_;
  std::vector<std::array<float, 256>> values_;  // per channel: of a byte
};

}  // namespace estrain::data
