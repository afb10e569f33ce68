#pragma once
// Transforms an image from the file to the model's input, in this order:
//
//   1. uint8 / 255 in fp32 (float images are taken unchanged)      torchvision ToTensor
//   2. a grey channel repeated (data.channels = 3)
//   3. bilinear resize (Bilinear)
//   4. zero pixels on all sides
//   5. crop: at a random place in training, from the centre in evaluation (as CenterCrop: half a pixel rounds to even)
//   6. mirrored left to right with probability 1/2 in training
//   7. changed at random in training (rand_augment.h, then jitter.h): uint8 images without a resize, before step 1
//   8. minus mean, divided by std, per channel: two fp32 operations, each rounded      torchvision Normalize
//   9. a rectangle erased in training (erasing.h)
//
// Without a resize, steps 1 and 8 on uint8 are a table of 256 values per channel, made once by these operations.
// Padding is the pixel value 0 of step 1, normalised like every pixel.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/data/pixels/erasing.h"
#include "core/data/pixels/image_source.h"
#include "core/data/pixels/jitter.h"
#include "core/data/pixels/rand_augment.h"
#include "core/data/sampling/augmentation.h"
#include "core/data/sampling/sample_shape.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

// Bilinear resizing without anti-aliasing, like torch.nn.functional.interpolate(mode="bilinear", align_corners=False):
// half-pixel centres, coordinates clamped at the edge.
//
// The same bits as torch on a CPU with AVX2 or AVX-512 for float32 images in (N, C, H, W) order. Like torch, this class
// uses the first of two forms for 3 channels and for small outputs (height + width <= 128), otherwise the second:
//   fma(w11, s, fma(w10, r, fma(w00, p, w01 * q))), w00 = h0 * w0 and so on     p q   the four neighbours
//   fma(h0, fma(w0, p, w1 * q), h1 * fma(w0, r, w1 * s))                        r s
// (Without AVX2, torch uses no fma and gives other bits; this code gives the same bits on every machine.)
class Bilinear {
 public:
  struct Size {
    int64_t height, width;
  };
  // `channels`: of the image in torch; the number decides the form.
  Bilinear(Size in, Size out, int64_t channels);

  // Resizes `planes` consecutive planes.
  void resize(const float* in, int64_t planes, float* out) const;

 private:
  struct Tap {  // one output coordinate: in[low] * low_weight + in[high] * high_weight
    int64_t low, high;
    float low_weight, high_weight;
  };
  static std::vector<Tap> taps(int64_t in, int64_t out);

  template <typename Blend>
  void each_pixel(const float* in, int64_t planes, float* out, Blend blend) const;
  void with_fma_unit(const float* in, int64_t planes, float* out) const;
  void dispatch(const float* in, int64_t planes, float* out) const;

  Size in_;
  bool product_form_;
  std::vector<Tap> rows_, columns_;
};

// Immutable, hence thread-safe.
class ImageTransform {
 public:
  // Throws Fault::spec if the keys do not fit the images (crop larger than the padded image, grey required of a colour
  // image, a mean for another number of channels, a std of zero, data.rand_augment or data.jitter for other images than
  // step 7's), and as RandAugment::require_fit().
  ImageTransform(const ImageLayout& raw, const spec::DataSection& data);

  SampleShape shape() const { return SampleShape::image(channels_, height_, width_); }

  // `raw` as from ImageSource::pixels; `out` must have shape().elements() floats.
  void apply(const std::byte* raw, const SampleDraw& draw, float* out) const;

 private:
  using Table = std::array<float, 256>;
  struct Window {  // the part taken from the (resized) image: first row and column, negative within the padding
    int64_t top, left;
    bool mirrored;
  };

  void read_resize(const spec::DataSection& data);
  void read_crop(const spec::DataSection& data);
  void read_normalisation(const spec::DataSection& data);
  void require_bytes(const char* key) const;

  Window window(const SampleDraw& draw) const;
  float normalised(float value, int64_t channel) const;
  const float* resized(const std::byte* raw) const;
  template <typename Pixel, typename Value, typename Out>
  void copy_plane(const Pixel* plane, const Window& at, Out padding, Value value, Out* out) const;
  void write_planes(const std::byte* raw, const Window& at, float* out) const;
  void write_changed(const uint8_t* raw, const Window& at, const SampleDraw& draw, float* out) const;

  ImageLayout raw_;
  int64_t channels_, plane_height_, plane_width_;  // after steps 2 and 3
  int64_t height_, width_;                         // of the result
  int64_t pad_;
  bool flip_;
  RandAugment rand_augment_;
  Jitter jitter_;
  Erasing erasing_;
  std::optional<Bilinear> resize_;
  std::vector<float> mean_, std_;  // per channel
  std::vector<Table> tables_;      // per channel: pixel -> result
  Table unit_;                     // pixel / 255
};

}  // namespace estrain::data
