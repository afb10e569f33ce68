// Convolutions (kernels/portable/convolution.h) as implicit matrix products by product.h: rows are channels of the
// result, columns the result's positions (for filters: the taps of all channels), and an operand's elements are read
// from the image when needed. Depthwise and other groups with few channels use one thread per output.
//
// kernels/portable/convolution_axis.h decides which taps count, for CPU and GPU alike. The list of taps is passed in a
// kernel's arguments, so nothing is copied from host memory.

#include <stdexcept>

#include "kernels/cuda/convolution_operands.h"
#include "kernels/cuda/lanes.h"
#include "kernels/cuda/product.h"
#include "kernels/portable/convolution_axis.h"

namespace estrain::kernels::cuda {
namespace {

using portable::AxisTap;
using portable::Convolution;
using portable::ConvolutionAxes;
using portable::ConvolutionAxis;

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
  int64_t channels, rows, columns;     // of counted taps
  int64_t channel_stride, row_stride;  // in the image
  int64_t weight_channel, weight_row;  // strides in a filter; 1 for a column
  int64_t count() const { return channels * rows * columns; }
};

__device__ Term term_of(const TermSizes& s, int64_t i, const Tap* rows, const Tap* columns) {
  if (i >= s.channels * s.rows * s.columns) return {0, kOutside, kOutside, 0};
  const Tap column = columns[i % s.columns], row = rows[i / s.columns % s.rows];
  const int64_t channel = i / s.columns / s.rows;
  return {static_cast<int32_t>(channel * s.channel_stride + row.distance * s.row_stride + column.distance),
          row.distance, column.distance,
          static_cast<int32_t>(channel * s.weight_channel + row.tap * s.weight_row + column.tap)};
}
__global__ void list_terms(TermSizes s, const Tap* rows, const Tap* columns, Term* to) {
  const int64_t i = thread_index();
  if (i < s.channels * s.rows * s.columns + kSpareTerms) to[i] = term_of(s, i, rows, columns);
}
__global__ void list_terms_of(TermSizes s, SomeTaps taps, Term* to) {
  const int64_t i = thread_index();
  if (i < s.channels * s.rows * s.columns + kSpareTerms) to[i] = term_of(s, i, taps.at, taps.at + s.rows);
}

// Terms in the device's memory.
class TermList {
 public:
  TermList(const TermSizes& sizes, const std::vector<Tap>& rows, const std::vector<Tap>& columns,
           const DeviceQueue& queue)
      : taps_(queue, fits(rows, columns) ? 0 : static_cast<int64_t>(rows.size() + columns.size())),
        terms_(queue, sizes.count() + kSpareTerms) {
    const Grid grid = grid_for(sizes.count() + kSpareTerms);
    if (fits(rows, columns)) {
      SomeTaps some = {};
      for (size_t i = 0; i < rows.size(); ++i) some.at[i] = rows[i];
      for (size_t i = 0; i < columns.size(); ++i) some.at[rows.size() + i] = columns[i];
      launch("convolution_terms", queue, grid, list_terms_of, sizes, some, terms_.get());
      return;
    }
    put_taps(rows, taps_.get(), queue);
    put_taps(columns, taps_.get() + rows.size(), queue);
    launch("convolution_terms", queue, grid, list_terms, sizes, taps_.get(), taps_.get() + rows.size(), terms_.get());
  }
  const Term* get() const { return terms_.get(); }

 private:
  static bool fits(const std::vector<Tap>& rows, const std::vector<Tap>& columns) {
    return rows.size() + columns.size() <= kTapsAtOnce;
  }
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

// ---- The convolutions ----

struct GroupChannels {
  int64_t in, out;
};
GroupChannels channels_of(const Convolution& s) { return {s.channels_in / s.groups, s.channels_out / s.groups}; }

// Terms and lanes are 32-bit numbers.
void require_size(int64_t elements) {
  if (elements > INT32_MAX - 256)
    throw std::invalid_argument("a convolution of 2^31 positions, filter or image elements");
}

ImageOperand image_of(const float* data, int64_t channels, int64_t all_channels, int64_t height, int64_t width,
                      const Positions& positions, int64_t row_stride, int64_t column_stride, const Term* terms) {
  const int64_t plane = height * width;
  require_size(channels * plane);
  return {data,
          channels * plane,
          all_channels * plane,
          static_cast<int32_t>(height),
          static_cast<int32_t>(width),
          positions,
          static_cast<int32_t>(row_stride),
          static_cast<int32_t>(column_stride),
          terms,
          positions.of(kTileSteps)};
}
ImageOperand input_image(const Convolution& s, const float* x, const Term* terms) {
  return image_of(x, channels_of(s).in, s.channels_in, s.height, s.width, {s.output_height(), s.output_width()},
                  s.stride_height, s.stride_width, terms);
}

// Returns whether the convolution has a single tap, inside the image at every position.
bool is_plain(const std::vector<Tap>& rows, const std::vector<Tap>& columns, const ImageOperand& image) {
  if (rows.size() != 1 || columns.size() != 1) return false;
  const int64_t row = rows[0].distance, column = columns[0].distance;
  return row >= 0 && row + (image.positions.rows - 1) * image.row_stride < image.height && column >= 0 &&
         column + (image.positions.columns - 1) * image.column_stride < image.width;
}
// Returns whether positions and elements correspond one to one, in the same order.
bool is_dense(const ImageOperand& image) {
  return image.positions.rows == image.height && image.positions.columns == image.width && image.row_stride == 1 &&
         image.column_stride == 1;
}
PositionLanes plain_lanes(const ImageOperand& image, const Tap& row, const Tap& column) {
  const int64_t plane = int64_t{image.height} * image.width;
  const float* const data = image.data + int64_t{row.distance} * image.width + column.distance;
  const bool quads = is_dense(image) && in_quads(data, 1, plane);
  return {data,
          image.group_stride,
          image.image_stride,
          plane,
          image.positions,
          image.row_stride * image.width,
          image.column_stride,
          quads};
}

// A channel's terms in the forward pass and for filter gradients.
TermSizes input_terms(const Convolution& s, size_t rows, size_t columns) {
  return {channels_of(s).in,
          static_cast<int64_t>(rows),
          static_cast<int64_t>(columns),
          s.height * s.width,
          s.width,
          s.filter_height * s.filter_width,
          s.filter_width};
}

// Computes the inputs of one phase.
void backward_phase(const Convolution& s, int64_t row_phase, int64_t column_phase, const float* dy, const float* w,
                    float* dx, const DeviceQueue& queue) {
  const ConvolutionAxes axes = portable::axes_of(s);
  const GroupChannels channels = channels_of(s);
  const int64_t taps = s.filter_height * s.filter_width, plane = s.height * s.width;
  const Positions inputs = {axes.rows.phase_size(row_phase), axes.columns.phase_size(column_phase)};
  if (inputs.rows == 0 || inputs.columns == 0) return;
  const std::vector<Tap> rows = backward_taps(axes.rows, row_phase),
                         columns = backward_taps(axes.columns, column_phase);
  const TermSizes sizes = {channels.out,
                           static_cast<int64_t>(rows.size()),
                           static_cast<int64_t>(columns.size()),
                           s.output_height() * s.output_width(),
                           s.output_width(),
                           channels.in * taps,
                           s.filter_width};
  const int64_t group = channels.out * channels.in * taps;
  require_size(group);
  const bool whole_image = s.stride_height == 1 && s.stride_width == 1;
  const ImageOutput out = {dx + row_phase * s.width + column_phase,
                           channels.in * plane,
                           s.channels_in * plane,
                           plane,
                           inputs,
                           s.stride_height * s.width,
                           s.stride_width,
                           nullptr,
                           0,
                           whole_image && in_quads(dx, 1, plane)};
  const ProductSizes product = {s.groups, channels.in, s.batch * inputs.rows * inputs.columns};
  ImageOperand image =
      image_of(dy, channels.out, s.channels_out, s.output_height(), s.output_width(), inputs, 1, 1, nullptr);
  if (is_plain(rows, columns, image)) {
    const int64_t tap = rows[0].tap * s.filter_width + columns[0].tap;
    const Strided<false> filters = {w + tap, taps, channels.in * taps, group,
                                    in_quads(w + tap, taps, channels.in, group)};
    return multiply("convolution_backward_data", product, sizes.count(), filters,
                    plain_lanes(image, rows[0], columns[0]), out, queue);
  }
  const TermList terms(sizes, rows, columns, queue);
  image.terms = terms.get();
  const Filters filters = {w, group, taps, terms.get()};
  multiply("convolution_backward_data", product, sizes.count(), filters, ImageByPosition{image}, out, queue);
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
  const auto load = [&](int64_t i) {
    const int64_t image = quotient(i, s.positions);
    return s.dy[image * s.image_stride + channel * s.positions + i - image * s.positions];
  };
  block_sums<1>(begin, end, sum, load, [](float term, float(&lanes)[1]) { lanes[0] = lanes[0] + term; });
  if (threadIdx.x == 0) partials[index] = sum[0];
}

}  // namespace

void convolution_forward(const Convolution& s, const float* x, const float* w, const float* bias, float* y,
                         const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  const ConvolutionAxes axes = portable::axes_of(s);
  const GroupChannels channels = channels_of(s);
  const int64_t positions = s.output_height() * s.output_width();
  if (s.batch * positions * s.channels_out == 0) return;
  const std::vector<Tap> rows = forward_taps(axes.rows), columns = forward_taps(axes.columns);
  const TermSizes sizes = input_terms(s, rows.size(), columns.size());
  const int64_t filter = channels.in * s.filter_height * s.filter_width;
  require_size(channels.out * filter);
  ImageOperand image = input_image(s, x, nullptr);
  const ImageOutput out = {y,
                           channels.out * positions,
                           s.channels_out * positions,
                           positions,
                           image.positions,
                           s.output_width(),
                           1,
                           bias,
                           channels.out,
                           in_quads(y, 1, positions)};
  const ProductSizes product = {s.groups, channels.out, s.batch * positions};
  const char* const name = "convolution_forward";
  if (sizes.count() < filter) {  // taps without an output
    const TermList terms(sizes, rows, columns, queue);
    image.terms = terms.get();
    const Filters filters = {w, channels.out * filter, filter, terms.get()};
    return multiply(name, product, sizes.count(), filters, ImageByPosition{image}, out, queue);
  }
  const Strided<true> filters = {w, filter, 1, channels.out * filter, in_quads(w, 1, filter, channels.out * filter)};
  if (is_plain(rows, columns, image))
    return multiply(name, product, filter, filters, plain_lanes(image, rows[0], columns[0]), out, queue);
  const TermList terms(sizes, rows, columns, queue);
  image.terms = terms.get();
  multiply(name, product, filter, filters, ImageByPosition{image}, out, queue);
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
  const GroupChannels channels = channels_of(s);
  const int64_t positions = s.output_height() * s.output_width();
  const int64_t filter = channels.in * s.filter_height * s.filter_width;
  const std::vector<Tap> rows = forward_taps(axes.rows), columns = forward_taps(axes.columns);
  const TermSizes sizes = input_terms(s, rows.size(), columns.size());
  if (sizes.count() < filter || s.batch * positions == 0)
    fill(dw, s.channels_out * filter, 0, execution);  // taps without an output
  if (sizes.count() == 0 || channels.out == 0 || s.batch * positions == 0) return;
  const Channels gradients = {dy, channels.out * positions, s.channels_out * positions, positions};
  ImageOperand image = input_image(s, x, nullptr);
  const ProductSizes product = {s.groups, channels.out, sizes.count()};
  const char* const name = "convolution_backward_filter";
  if (is_plain(rows, columns, image) && is_dense(image) && sizes.count() == filter) {
    const Channels inputs = {x, channels.in * positions, s.channels_in * positions, positions};
    const FilterOutput out = {dw, channels.out * filter, filter, nullptr, in_quads(dw, 1, filter)};
    return multiply(name, product, s.batch * positions, gradients, inputs, out, queue);
  }
  const TermList terms(sizes, rows, columns, queue);
  image.terms = terms.get();
  const bool complete = sizes.count() == filter;
  const FilterOutput out = {dw, channels.out * filter, filter, complete ? nullptr : terms.get(),
                            complete && in_quads(dw, 1, filter)};
  multiply(name, product, s.batch * positions, gradients, ImageByTerm{image}, out, queue);
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
