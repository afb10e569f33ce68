// Convolutions (kernels/portable/convolution.h) as implicit matrix products by product.h: rows are channels of the
// result, columns its positions (or, for filters, the taps of all channels), and an operand's elements are found in the
// image as they are needed. Depthwise and other groups with few channels take the way of a thread for each output.
//
// Which taps count is decided by portable/convolution_axis.h, for CPU and GPU alike; their list travels to the device
// inside the arguments of a kernel, so nothing is copied from host memory.

#include "kernels/cuda/lanes.h"
#include "kernels/cuda/product.h"
#include "kernels/portable/convolution_axis.h"

namespace estrain::kernels::cuda {
namespace {

using portable::AxisTap;
using portable::Convolution;
using portable::ConvolutionAxes;
using portable::ConvolutionAxis;

// One term of a sum over channels and taps: where its channel begins in the image, how far its tap is from a position,
// and where it stands in a filter.
struct Term {
  int64_t channel, weight;
  int32_t row, column;
};

// A tap of one axis.
struct Tap {
  int32_t tap, distance;
};

// ---- The list of terms ----

constexpr int kTapsAtOnce = 256;
struct SomeTaps {
  Tap at[kTapsAtOnce];
};

__global__ void store_taps(SomeTaps taps, int count, Tap* to) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(kThreads)) to[i] = taps.at[i];
}

void put_taps(const std::vector<Tap>& taps, Tap* to, const DeviceQueue& queue) {
  for (size_t first = 0; first < taps.size(); first += kTapsAtOnce) {
    SomeTaps some = {};
    const size_t count = taps.size() - first < kTapsAtOnce ? taps.size() - first : kTapsAtOnce;
    for (size_t i = 0; i < count; ++i) some.at[i] = taps[first + i];
    launch("convolution_taps", queue, Grid{1}, store_taps, some, static_cast<int>(count), to + first);
  }
}

struct TermSizes {
  int64_t channels, rows, columns;     // of taps that count
  int64_t channel_stride;              // in the image
  int64_t weight_channel, weight_row;  // strides in a filter; of a column 1
  int64_t count() const { return channels * rows * columns; }
};

__global__ void list_terms(TermSizes s, const Tap* rows, const Tap* columns, Term* to) {
  const int64_t i = thread_index();
  if (i >= s.channels * s.rows * s.columns) return;
  const Tap column = columns[i % s.columns], row = rows[i / s.columns % s.rows];
  const int64_t channel = i / s.columns / s.rows;
  to[i] = {channel * s.channel_stride, channel * s.weight_channel + row.tap * s.weight_row + column.tap, row.distance,
           column.distance};
}

// Terms in the device's memory.
class TermList {
 public:
  TermList(const TermSizes& sizes, const std::vector<Tap>& rows, const std::vector<Tap>& columns,
           const DeviceQueue& queue)
      : taps_(queue, static_cast<int64_t>(rows.size() + columns.size())), terms_(queue, sizes.count()) {
    put_taps(rows, taps_.get(), queue);
    put_taps(columns, taps_.get() + rows.size(), queue);
    launch("convolution_terms", queue, grid_for(sizes.count()), list_terms, sizes, taps_.get(),
           taps_.get() + rows.size(), terms_.get());
  }
  const Term* get() const { return terms_.get(); }

 private:
  Scratch<Tap> taps_;
  Scratch<Term> terms_;
};

std::vector<Tap> forward_taps(const ConvolutionAxis& axis) {
  std::vector<Tap> out;
  for (const AxisTap& tap : axis.forward_taps()) {
    out.push_back({static_cast<int32_t>(tap.tap), static_cast<int32_t>(tap.shift * axis.stride + tap.phase)});
  }
  return out;
}
std::vector<Tap> backward_taps(const ConvolutionAxis& axis, int64_t phase) {
  std::vector<Tap> out;
  for (const AxisTap& tap : axis.backward_taps(phase)) {
    out.push_back({static_cast<int32_t>(tap.tap), static_cast<int32_t>(tap.shift)});
  }
  return out;
}

// ---- Operands and outputs ----

__device__ int64_t quotient(int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return ((x | y) >> 32) == 0 ? static_cast<int64_t>(static_cast<uint32_t>(x) / static_cast<uint32_t>(y))
                              : static_cast<int64_t>(x / y);
}

// The positions of all images: number p is (image, row, column), the column running fastest.
struct Place {
  int64_t image;
  int32_t row, column;
};
struct Positions {
  int64_t rows, columns;
  __device__ Place of(int64_t p) const {
    const int64_t line = quotient(p, columns), image = quotient(line, rows);
    return {image, static_cast<int32_t>(line - image * rows), static_cast<int32_t>(p - line * columns)};
  }
};

// An image read at position * stride + the term's distance; +0 outside.
struct Image {
  const float* data;
  int64_t group_stride, image_stride;
  int32_t height, width;
  Positions positions;
  int32_t row_stride, column_stride;  // of positions
  const Term* terms;

  __device__ void select(int64_t group) { data += group * group_stride; }
  __device__ float read(const Place& at, const Term& term) const {
    const int32_t row = at.row * row_stride + term.row, column = at.column * column_stride + term.column;
    const bool inside = row >= 0 && row < height && column >= 0 && column < width;
    return inside ? data[at.image * image_stride + term.channel + static_cast<int64_t>(row) * width + column] : 0.0f;
  }
};
struct ImageByPosition : Image {
  static constexpr bool steps_adjacent = false;
  __device__ Place lane(int64_t l) const { return positions.of(l); }
  __device__ Term step(int64_t k) const { return terms[k]; }
  __device__ float at(const Place& lane, const Term& step) const { return read(lane, step); }
};
struct ImageByTerm : Image {
  static constexpr bool steps_adjacent = true;
  __device__ Term lane(int64_t l) const { return terms[l]; }
  __device__ Place step(int64_t k) const { return positions.of(k); }
  __device__ float at(const Term& lane, const Place& step) const { return read(step, lane); }
};

// Filters, a lane for each channel of the result.
struct Filters {
  static constexpr bool steps_adjacent = true;
  const float* data;
  int64_t group_stride, lane_stride;
  const Term* terms;

  __device__ void select(int64_t group) { data += group * group_stride; }
  __device__ int64_t lane(int64_t l) const { return l * lane_stride; }
  __device__ int64_t step(int64_t k) const { return terms[k].weight; }
  __device__ float at(int64_t lane, int64_t step) const { return data[lane + step]; }
};

// Output gradients, a lane for each channel, a step for each position of all images.
struct Gradients {
  static constexpr bool steps_adjacent = true;
  const float* data;
  int64_t group_stride, image_stride, positions;

  __device__ void select(int64_t group) { data += group * group_stride; }
  __device__ int64_t lane(int64_t l) const { return l * positions; }
  __device__ int64_t step(int64_t k) const {
    const int64_t image = quotient(k, positions);
    return image * image_stride + k - image * positions;
  }
  __device__ float at(int64_t lane, int64_t step) const { return data[lane + step]; }
};

// A row for each channel, a column for each position (of a phase).
struct ImageOutput {
  float* data;
  int64_t group_stride, image_stride, channel_stride;
  Positions positions;
  int64_t row_stride, column_stride;
  const float* bias;  // null: none
  int64_t bias_group;

  __device__ void select(int64_t group) {
    data += group * group_stride;
    if (bias != nullptr) bias += group * bias_group;
  }
  __device__ int64_t column(int64_t c) const {
    const Place at = positions.of(c);
    return at.image * image_stride + at.row * row_stride + at.column * column_stride;
  }
  __device__ void put(int64_t row, int64_t place, float total) const {
    data[row * channel_stride + place] = bias == nullptr ? total : total + bias[row];
  }
};

struct FilterOutput {
  float* data;
  int64_t group_stride, row_stride;
  const Term* terms;

  __device__ void select(int64_t group) { data += group * group_stride; }
  __device__ int64_t column(int64_t c) const { return terms[c].weight; }
  __device__ void put(int64_t row, int64_t place, float total) const { data[row * row_stride + place] = total; }
};

// ---- The convolutions ----

struct Channels {
  int64_t in, out;  // of a group
};
Channels channels_of(const Convolution& s) { return {s.channels_in / s.groups, s.channels_out / s.groups}; }

Image input_image(const Convolution& s, const float* x, const Term* terms) {
  const int64_t plane = s.height * s.width;
  return {x,
          channels_of(s).in * plane,
          s.channels_in * plane,
          static_cast<int32_t>(s.height),
          static_cast<int32_t>(s.width),
          {s.output_height(), s.output_width()},
          static_cast<int32_t>(s.stride_height),
          static_cast<int32_t>(s.stride_width),
          terms};
}

// A channel's terms as forward and filter gradients have them.
TermSizes input_terms(const Convolution& s, size_t rows, size_t columns) {
  return {channels_of(s).in,  static_cast<int64_t>(rows),       static_cast<int64_t>(columns),
          s.height * s.width, s.filter_height * s.filter_width, s.filter_width};
}

// The inputs of one phase.
void backward_phase(const Convolution& s, int64_t row_phase, int64_t column_phase, const float* dy, const float* w,
                    float* dx, const DeviceQueue& queue) {
  const ConvolutionAxes axes = portable::axes_of(s);
  const Channels channels = channels_of(s);
  const int64_t taps = s.filter_height * s.filter_width, plane = s.height * s.width;
  const int64_t positions = s.output_height() * s.output_width();
  const Positions inputs = {axes.rows.phase_size(row_phase), axes.columns.phase_size(column_phase)};
  if (inputs.rows == 0 || inputs.columns == 0) return;
  const std::vector<Tap> rows = backward_taps(axes.rows, row_phase),
                         columns = backward_taps(axes.columns, column_phase);
  const TermSizes sizes = {channels.out,
                           static_cast<int64_t>(rows.size()),
                           static_cast<int64_t>(columns.size()),
                           positions,
                           channels.in * taps,
                           s.filter_width};
  const TermList terms(sizes, rows, columns, queue);
  const Filters filters = {w, channels.out * channels.in * taps, taps, terms.get()};
  const ImageByPosition image = {{dy, channels.out * positions, s.channels_out * positions,
                                  static_cast<int32_t>(s.output_height()), static_cast<int32_t>(s.output_width()),
                                  inputs, 1, 1, terms.get()}};
  const ImageOutput out = {dx + row_phase * s.width + column_phase,
                           channels.in * plane,
                           s.channels_in * plane,
                           plane,
                           inputs,
                           s.stride_height * s.width,
                           s.stride_width,
                           nullptr,
                           0};
  multiply("convolution_backward_data", Sizes{s.groups, channels.in, s.batch * inputs.rows * inputs.columns},
           sizes.count(), filters, image, out, queue);
}

// dy of a channel over all images as one sequence.
struct Sequence {
  const float* dy;
  int64_t images, image_stride, channels, positions, blocks;
};

__global__ void sum_blocks(Sequence s, float* partials) {
  const int64_t index = warp_index();
  if (index >= s.channels * s.blocks) return;
  const int64_t channel = index / s.blocks, begin = index % s.blocks * portable::kLaneBlock;
  const int64_t n = s.images * s.positions;
  const int64_t end = begin + portable::kLaneBlock < n ? begin + portable::kLaneBlock : n;
  float sum[1] = {};
  block_sums<1>(begin, end, sum, [&](int64_t i, float(&lanes)[1]) {
    const int64_t image = quotient(i, s.positions);
    lanes[0] = lanes[0] + s.dy[image * s.image_stride + channel * s.positions + i - image * s.positions];
  });
  if (threadIdx.x == 0) partials[index] = sum[0];
}

}  // namespace

void convolution_forward(const Convolution& s, const float* x, const float* w, const float* bias, float* y,
                         const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const ConvolutionAxes axes = portable::axes_of(s);
  const Channels channels = channels_of(s);
  const int64_t positions = s.output_height() * s.output_width();
  if (s.batch * positions * s.channels_out == 0) return;
  const std::vector<Tap> rows = forward_taps(axes.rows), columns = forward_taps(axes.columns);
  const TermSizes sizes = input_terms(s, rows.size(), columns.size());
  const TermList terms(sizes, rows, columns, queue);
  const int64_t filter = channels.in * s.filter_height * s.filter_width;
  const Filters filters = {w, channels.out * filter, filter, terms.get()};
  const ImageByPosition image = {input_image(s, x, terms.get())};
  const ImageOutput out = {y,
                           channels.out * positions,
                           s.channels_out * positions,
                           positions,
                           image.positions,
                           s.output_width(),
                           1,
                           bias,
                           channels.out};
  multiply("convolution_forward", Sizes{s.groups, channels.out, s.batch * positions}, sizes.count(), filters, image,
           out, queue);
}

void convolution_backward_data(const Convolution& s, const float* dy, const float* w, float* dx,
                               const Execution& execution) {
  if (s.batch * s.channels_in * s.height * s.width == 0) return;
  for (int64_t row = 0; row < s.stride_height; ++row) {
    for (int64_t column = 0; column < s.stride_width; ++column) {
      backward_phase(s, row, column, dy, w, dx, queue_of(execution));
    }
  }
}

void convolution_backward_filter(const Convolution& s, const float* x, const float* dy, float* dw,
                                 const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const ConvolutionAxes axes = portable::axes_of(s);
  const Channels channels = channels_of(s);
  const int64_t positions = s.output_height() * s.output_width();
  const int64_t filter = channels.in * s.filter_height * s.filter_width;
  const std::vector<Tap> rows = forward_taps(axes.rows), columns = forward_taps(axes.columns);
  const TermSizes sizes = input_terms(s, rows.size(), columns.size());
  if (sizes.count() < filter) fill(dw, s.channels_out * filter, 0, execution);  // taps that no output uses
  if (sizes.count() == 0 || channels.out == 0) return;
  const TermList terms(sizes, rows, columns, queue);
  const Gradients gradients = {dy, channels.out * positions, s.channels_out * positions, positions};
  const ImageByTerm image = {input_image(s, x, terms.get())};
  const FilterOutput out = {dw, channels.out * filter, filter, terms.get()};
  multiply("convolution_backward_filter", Sizes{s.groups, channels.out, sizes.count()}, s.batch * positions, gradients,
           image, out, queue);
}

void convolution_backward_bias(const Convolution& s, const float* dy, float* db, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const int64_t positions = s.output_height() * s.output_width(), n = s.batch * positions;
  const int64_t blocks = n <= portable::kLaneBlock ? 1 : portable::divide_up(n, portable::kLaneBlock);
  const Scratch<float> partials(queue, s.channels_out * blocks);
  const Sequence sequence = {dy, s.batch, s.channels_out * positions, s.channels_out, positions, blocks};
  launch("convolution_backward_bias", queue, grid_of_warps(s.channels_out * blocks), sum_blocks, sequence,
         partials.get());
  add_in_order(db, partials.get(), s.channels_out, blocks, queue);
}

}  // namespace estrain::kernels::cuda
