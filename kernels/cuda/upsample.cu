// Resizing (kernels/portable/upsample.h). Forward: one thread per output. Backward: one thread per input walks over the
// outputs that read the input. Bisection finds them, since an input never decreases with the output's index.

#include "kernels/cuda/families.h"
#include "kernels/cuda/value.h"
#include "kernels/portable/upsample_axis.h"

namespace estrain::kernels::cuda {
namespace {

using portable::BilinearInputs;
using portable::ResizedAxis;
using portable::UpsampleShape;

struct Axes {
  int64_t planes;
  ResizedAxis h, w;
  __host__ __device__ int64_t inputs() const { return planes * h.in * w.in; }
  __host__ __device__ int64_t outputs() const { return planes * h.out * w.out; }
};
Axes axes_of(const UpsampleShape& s, bool align_corners) {
  return {s.planes, portable::resized_axis(s.height, s.output_height, s.factor_height, align_corners),
          portable::resized_axis(s.width, s.output_width, s.factor_width, align_corners)};
}

// Returns the first output whose (first) input is at least `least`.
template <bool nearest>
__device__ int64_t first_reader(const ResizedAxis& axis, int64_t least) {
  int64_t begin = 0, end = axis.out;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    const int64_t read =
        nearest ? portable::nearest_input(axis, middle) : portable::bilinear_inputs(axis, middle).first;
    if (read < least) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

__global__ void nearest(Axes a, float* y, const float* x) {
  const int64_t i = thread_index();
  if (i >= a.outputs()) return;
  const int64_t plane = i / a.w.out / a.h.out;
  const int64_t row = portable::nearest_input(a.h, i / a.w.out % a.h.out);
  y[i] = x[(plane * a.h.in + row) * a.w.in + portable::nearest_input(a.w, i % a.w.out)];
}

__global__ void nearest_gradient(Axes a, float* dx, const float* dy) {
  const int64_t i = thread_index();
  if (i >= a.inputs()) return;
  const int64_t plane = i / a.w.in / a.h.in, row = i / a.w.in % a.h.in, column = i % a.w.in;
  const int64_t top = first_reader<true>(a.h, row), bottom = first_reader<true>(a.h, row + 1);
  const int64_t left = first_reader<true>(a.w, column), right = first_reader<true>(a.w, column + 1);
  float sum = 0;
  for (int64_t oh = top; oh < bottom; ++oh) {
    for (int64_t ow = left; ow < right; ++ow) sum = sum + dy[(plane * a.h.out + oh) * a.w.out + ow];
  }
  dx[i] = sum;
}

__global__ void bilinear(Axes a, float* y, const float* x) {
  const int64_t i = thread_index();
  if (i >= a.outputs()) return;
  const int64_t plane = i / a.w.out / a.h.out;
  const BilinearInputs h = portable::bilinear_inputs(a.h, i / a.w.out % a.h.out);
  const BilinearInputs w = portable::bilinear_inputs(a.w, i % a.w.out);
  const float* above = x + (plane * a.h.in + h.first) * a.w.in;
  const float* below = x + (plane * a.h.in + h.second) * a.w.in;
  const float top = fused(w.second_weight, above[w.second], w.first_weight * above[w.first]);
  const float bottom = fused(w.second_weight, below[w.second], w.first_weight * below[w.first]);
  y[i] = fused(h.second_weight, bottom, h.first_weight * top);
}

// Calls step(sum, output, weight) for the outputs that read input i, in order. For an output that reads i twice, the
// output's `first` comes first.
template <typename Step>
__device__ float gathered(const ResizedAxis& axis, int64_t i, Step step) {
  const int64_t begin = first_reader<false>(axis, i - 1), end = first_reader<false>(axis, i + 1);
  float sum = 0;
  for (int64_t o = begin; o < end; ++o) {
    const BilinearInputs inputs = portable::bilinear_inputs(axis, o);
    if (inputs.first == i) sum = step(sum, o, inputs.first_weight);
    if (inputs.second == i) sum = step(sum, o, inputs.second_weight);
  }
  return sum;
}

// t[plane][oh][iw] of kernels/portable/upsample.h
__global__ void narrowed(Axes a, float* t, const float* dy) {
  const int64_t i = thread_index();
  if (i >= a.planes * a.h.out * a.w.in) return;
  const float* row = dy + i / a.w.in * a.w.out;
  t[i] = gathered(a.w, i % a.w.in, [&](float sum, int64_t ow, float weight) { return fused(weight, row[ow], sum); });
}

__global__ void bilinear_gradient(Axes a, float* dx, const float* t) {
  const int64_t i = thread_index();
  if (i >= a.inputs()) return;
  const float* column = t + i / a.w.in / a.h.in * a.h.out * a.w.in + i % a.w.in;
  dx[i] = gathered(a.h, i / a.w.in % a.h.in,
                   [&](float sum, int64_t oh, float weight) { return fused(weight, column[oh * a.w.in], sum); });
}

}  // namespace

void upsample_nearest(float* y, const float* x, const UpsampleShape& shape, const Execution& execution) {
  const Axes a = axes_of(shape, false);
  launch("upsample_nearest", queue_of(execution), grid_for(a.outputs()), nearest, a, y, x);
}

void upsample_nearest_backward(float* dx, const float* dy, const UpsampleShape& shape, const Execution& execution) {
  const Axes a = axes_of(shape, false);
  launch("upsample_nearest_backward", queue_of(execution), grid_for(a.inputs()), nearest_gradient, a, dx, dy);
}

void upsample_bilinear(float* y, const float* x, const UpsampleShape& shape, const Execution& execution) {
  const Axes a = axes_of(shape, shape.align_corners);
  launch("upsample_bilinear", queue_of(execution), grid_for(a.outputs()), bilinear, a, y, x);
}

void upsample_bilinear_backward(float* dx, const float* dy, const UpsampleShape& shape, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const Axes a = axes_of(shape, shape.align_corners);
  const int64_t rows = a.planes * a.h.out * a.w.in;
  const Scratch<float> t(queue, rows);
  launch("upsample_bilinear_rows", queue, grid_for(rows), narrowed, a, t.get(), dy);
  launch("upsample_bilinear_backward", queue, grid_for(a.inputs()), bilinear_gradient, a, dx, t.get());
}

}  // namespace estrain::kernels::cuda
