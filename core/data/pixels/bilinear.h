#pragma once
// Bilinear resizing without anti-aliasing, like torch.nn.functional.interpolate(mode="bilinear", align_corners=False):
// half-pixel centres, coordinates clamped at the edge.
//
// The same bits as torch on a CPU with AVX2 or AVX-512 for float32 images in (N, C, H, W) order. Like torch, it uses
// the first of two forms for 3 channels and for small outputs (height + width <= 128), otherwise the second:
//   fma(w11, s, fma(w10, r, fma(w00, p, w01 * q))), w00 = h0 * w0 and so on     p q   the four neighbours
//   fma(h0, fma(w0, p, w1 * q), h1 * fma(w0, r, w1 * s))                        r s
// (Without AVX2, torch uses no fma and gives other bits; this code gives the same bits on every machine.)

#include <cstdint>
#include <vector>

namespace estrain::data {

class Bilinear {
 public:
  struct Size {
    int64_t height, width;
  };
  // `channels`: those of the image in torch; they decide the form.
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

}  // namespace estrain::data
