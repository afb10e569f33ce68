// Convolutions (kernels/portable/convolution.h) as implicit matrix products by product.h: rows are channels of the
// result, columns its positions (or, for filters, the taps of all channels), and an operand's elements are found in the
// image as they are needed. Depthwise and other groups with few channels take the way of a thread for each output.
//
// Which taps count is decided by portable/convolution_axis.h, for CPU and GPU alike; their list travels to the device
// inside the arguments of a kernel, so nothing is copied from host memory.

#include <stdexcept>

#include "kernels/cuda/lanes.h"
#include "kernels/cuda/product.h"
#include "kernels/portable/convolution_axis.h"

namespace estrain::kernels::cuda {
namespace {

using portable::AxisTap;
using portable::Convolution;
using portable::ConvolutionAxes;
using portable::ConvolutionAxis;

// One term of a sum over channels and taps: where its element lies in the image, from a position's first; how far its
// tap is from the position; and where it stands in a filter.
struct alignas(16) Term {
  int32_t offset, row, column, weight;
};
// Behind the list, for tiles that reach beyond it: these lie outside of every image.
constexpr int64_t kSpareTerms = 128;
constexpr int32_t kOutside = INT32_MIN / 2;

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
  int64_t channel_stride, row_stride;  // in the image
  int64_t weight_channel, weight_row;  // strides in a filter; of a column 1
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

// ---- Operands and outputs ----

__host__ __device__ int64_t quotient(int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return ((x | y) >> 32) == 0 ? static_cast<int64_t>(static_cast<uint32_t>(x) / static_cast<uint32_t>(y))
                              : static_cast<int64_t>(x / y);
}

// The positions of all images: number p is (image, row, column), the column running fastest.
struct ImagePlace {
  int64_t image;
  int32_t row, column;
};
struct Positions {
  int64_t rows, columns;
  __host__ __device__ ImagePlace of(int64_t p) const {
    const int64_t line = quotient(p, columns), image = quotient(line, rows);
    return {image, static_cast<int32_t>(line - image * rows), static_cast<int32_t>(p - line * columns)};
  }
  // `by` positions further, step = of(by).
  __device__ void advance(ImagePlace& place, const ImagePlace& step) const {
    place.image += step.image;
    place.row += step.row;
    place.column += step.column;
    if (place.column >= columns) place.column -= static_cast<int32_t>(columns), ++place.row;
    if (place.row >= rows) place.row -= static_cast<int32_t>(rows), ++place.image;
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
  ImagePlace tile_step;  // positions.of(kTileSteps)

  // A position's first element, which may lie outside, as may the position itself.
  struct Origin {
    const float* at;
    int32_t row, column;
  };

  __device__ void select(int64_t group) { data += group * group_stride; }
  __device__ Origin origin(const ImagePlace& place) const {
    const int32_t row = place.row * row_stride, column = place.column * column_stride;
    return {data + place.image * image_stride + static_cast<int64_t>(row) * width + column, row, column};
  }
  __device__ Origin nowhere() const { return {data, kOutside, kOutside}; }
  __device__ float read(const Origin& from, const Term& term) const {
    const auto row = static_cast<uint32_t>(from.row + term.row),
               column = static_cast<uint32_t>(from.column + term.column);
    const bool inside = row < static_cast<uint32_t>(height) && column < static_cast<uint32_t>(width);
    return inside ? constant(from.at + term.offset) : 0.0f;
  }
};

// A thread has one lane, of every tile the same.
struct ImageByPosition : Image {
  __device__ Origin lane(int64_t l) const { return origin(positions.of(l)); }
  __device__ Term step(int64_t k) const { return terms[k]; }
  __device__ float at(const Origin& lane, const Term& step) const { return read(lane, step); }

  template <int lanes>
  class Reader {
   public:
    __device__ Reader(const ImageByPosition& x, const Lanes& of, int first_step)
        : own_(of.first + own_lane() < of.count ? x.lane(of.first + own_lane()) : x.nowhere()),
          next_(x.terms + first_step + own_step()) {}
    __device__ void read(const ImageByPosition& x, const Lanes&, int, int) {
      constexpr int at_once = 4;
#pragma unroll
      for (int begin = 0; begin < kEach; begin += at_once) {
        Term terms[at_once];
#pragma unroll
        for (int i = 0; i < at_once; ++i) terms[i] = next_[(begin + i) * kStepsAtOnce];
#pragma unroll
        for (int i = 0; i < at_once; ++i) values_[begin + i] = x.read(own_, terms[i]);
      }
      next_ += kTileSteps;
    }
    __device__ void write(const ImageByPosition&, Tile<lanes>& to) const {
#pragma unroll
      for (int i = 0; i < kEach; ++i) to.at[own_step() + i * kStepsAtOnce][own_lane()] = values_[i];
    }

   private:
    static constexpr int kEach = lanes * kTileSteps / kThreads, kStepsAtOnce = kThreads / lanes;
    __device__ static int own_lane() { return static_cast<int>(threadIdx.x) % lanes; }
    __device__ static int own_step() { return static_cast<int>(threadIdx.x) / lanes; }
    Origin own_;
    const Term* next_;
    float values_[kEach];
  };
};

// What readers share whose neighbouring threads read neighbouring steps: a thread has one step of every tile.
template <int lanes>
struct StepEach {
  static constexpr int kEach = lanes * kTileSteps / kThreads, kLanesAtOnce = kThreads / kTileSteps;
  __device__ static int own_step() { return static_cast<int>(threadIdx.x) % kTileSteps; }
  __device__ static int own_lane() { return static_cast<int>(threadIdx.x) / kTileSteps; }
  // The i-th of the thread's lanes in a tile, the last of all where there is none.
  __device__ static int lane(const Lanes& of, int i) {
    return lesser_of(of.first + own_lane() + i * kLanesAtOnce, of.count - 1);
  }
  __device__ static bool whole(const Lanes& of) { return of.first + lanes <= of.count; }
  // values[i] = from[i * stride], of the lanes that there are.
  __device__ void read(const float* from, int64_t stride, const Lanes& of) {
    if (whole(of)) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) values[i] = from[i * kLanesAtOnce * stride];
    } else {
#pragma unroll
      for (int i = 0; i < kEach; ++i) values[i] = from[(lane(of, i) - lane(of, 0)) * stride];
    }
  }
  __device__ void write(Tile<lanes>& to) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) to.at[own_step()][own_lane() + i * kLanesAtOnce] = values[i];
  }
  float values[kEach];
};

struct ImageByTerm : Image {
  __device__ Term lane(int64_t l) const { return terms[l]; }
  __device__ Origin step(int64_t k) const { return origin(positions.of(k)); }
  __device__ float at(const Term& lane, const Origin& step) const { return read(step, lane); }

  template <int lanes>
  class Reader : StepEach<lanes> {
    using Each = StepEach<lanes>;

   public:
    __device__ Reader(const ImageByTerm& x, const Lanes&, int first_step)
        : next_(x.positions.of(first_step + Each::own_step())) {}
    __device__ void read(const ImageByTerm& x, const Lanes& of, int from, int end) {
      const Origin origin = from + Each::own_step() < end ? x.origin(next_) : x.nowhere();
      const Term* const terms = x.terms + of.first + Each::own_lane();
      constexpr int at_once = 4;
#pragma unroll
      for (int begin = 0; begin < Each::kEach; begin += at_once) {
        Term some[at_once];
#pragma unroll
        for (int i = 0; i < at_once; ++i) some[i] = terms[(begin + i) * Each::kLanesAtOnce];
#pragma unroll
        for (int i = 0; i < at_once; ++i) this->values[begin + i] = x.Image::read(origin, some[i]);
      }
      x.positions.advance(next_, x.tile_step);
    }
    __device__ void write(const ImageByTerm&, Tile<lanes>& to) const { Each::write(to); }

   private:
    ImagePlace next_;
  };
};

// Filters, a lane for each channel of the result.
struct Filters {
  const float* data;
  int64_t group_stride, lane_stride;
  const Term* terms;

  __device__ void select(int64_t group) { data += group * group_stride; }
  __device__ int64_t lane(int64_t l) const { return l * lane_stride; }
  __device__ int64_t step(int64_t k) const { return terms[k].weight; }
  __device__ float at(int64_t lane, int64_t step) const { return data[lane + step]; }

  template <int lanes>
  class Reader : StepEach<lanes> {
    using Each = StepEach<lanes>;

   public:
    __device__ Reader(const Filters& x, const Lanes& of, int first_step)
        : own_(x.data + x.lane(Each::lane(of, 0))), next_(x.terms + first_step + Each::own_step()) {}
    __device__ void read(const Filters& x, const Lanes& of, int, int) {
      Each::read(own_ + next_->weight, x.lane_stride, of);
      next_ += kTileSteps;
    }
    __device__ void write(const Filters&, Tile<lanes>& to) const { Each::write(to); }

   private:
    const float* own_;
    const Term* next_;
  };
};

// Images of one element for each position: a lane for each channel, a step for each position of all images.
struct Channels {
  const float* data;
  int64_t group_stride, image_stride, positions;

  __device__ void select(int64_t group) { data += group * group_stride; }
  __device__ int64_t lane(int64_t l) const { return l * positions; }
  __device__ int64_t step(int64_t k) const {
    const int64_t image = quotient(k, positions);
    return image * image_stride + k - image * positions;
  }
  __device__ float at(int64_t lane, int64_t step) const { return data[lane + step]; }

  template <int lanes>
  class Reader : StepEach<lanes> {
    using Each = StepEach<lanes>;

   public:
    __device__ Reader(const Channels& x, const Lanes& of, int first_step) {
      const int64_t k = first_step + Each::own_step();
      place_ = static_cast<int>(k - quotient(k, x.positions) * x.positions);
      next_ = x.data + x.lane(Each::lane(of, 0)) + x.step(k);
    }
    __device__ void read(const Channels& x, const Lanes& of, int from, int end) {
      Each::read(from + Each::own_step() < end ? next_ : x.data, x.positions, of);
      const int64_t images = kTileSteps / x.positions;
      next_ += images * x.image_stride + kTileSteps - images * x.positions;
      place_ += kTileSteps - static_cast<int>(images * x.positions);
      if (place_ >= x.positions) {
        place_ -= static_cast<int>(x.positions);
        next_ += x.image_stride - x.positions;
      }
    }
    __device__ void write(const Channels&, Tile<lanes>& to) const { Each::write(to); }

   private:
    const float* next_;
    int place_;  // its position in the image
  };
};

// The same images the other way round: a lane for each position, a step for each channel.
struct PositionLanes {
  const float* data;
  int64_t group_stride, image_stride, channel_stride;
  Positions positions;
  int32_t row_stride, column_stride;
  bool quads;  // four positions from a multiple of four on lie side by side, 16-byte aligned

  __device__ void select(int64_t group) { data += group * group_stride; }
  __device__ int64_t lane(int64_t l) const {
    const ImagePlace place = positions.of(l);
    return place.image * image_stride + place.row * row_stride + place.column * column_stride;
  }
  __device__ int64_t step(int64_t k) const { return k * channel_stride; }
  __device__ float at(int64_t lane, int64_t step) const { return data[lane + step]; }

  template <int lanes>
  class Reader {
   public:
    __device__ Reader(const PositionLanes& x, const Lanes& of, int first_step) {
      const int last = of.count - 1, l = of.first + own_lane();
      const int64_t first = x.lane(lesser_of(l, last));
#pragma unroll
      for (int i = 1; i < kQuad; ++i) distance_[i - 1] = static_cast<int32_t>(x.lane(lesser_of(l + i, last)) - first);
      next_ = x.data + first + (first_step + own_step()) * x.channel_stride;
    }
    __device__ void read(const PositionLanes& x, const Lanes& of, int from, int end) {
      const int64_t between = kStepsAtOnce * x.channel_stride;
      if (x.quads && of.first + lanes <= of.count && from + kTileSteps <= end) {
#pragma unroll
        for (int i = 0; i < kQuads; ++i) quads_[i] = *reinterpret_cast<const Four*>(next_ + i * between);
      } else {
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          // A step that there is not: the first of the tile's last steps.
          const int beyond = from + own_step() + i * kStepsAtOnce - (end - 1);
          const float* const at = next_ + i * between - (beyond > 0 ? beyond : 0) * x.channel_stride;
          quads_[i].of[0] = at[0];
#pragma unroll
          for (int j = 1; j < kQuad; ++j) quads_[i].of[j] = at[distance_[j - 1]];
        }
      }
      next_ += kTileSteps * x.channel_stride;
    }
    __device__ void write(const PositionLanes&, Tile<lanes>& to) const {
#pragma unroll
      for (int i = 0; i < kQuads; ++i)
        *reinterpret_cast<Four*>(&to.at[own_step() + i * kStepsAtOnce][own_lane()]) = quads_[i];
    }

   private:
    static constexpr int kQuads = lanes / kGroup, kLaneQuads = lanes / kQuad, kStepsAtOnce = kThreads / kLaneQuads;
    __device__ static int own_lane() { return static_cast<int>(threadIdx.x) % kLaneQuads * kQuad; }
    __device__ static int own_step() { return static_cast<int>(threadIdx.x) / kLaneQuads; }
    const float* next_;
    int32_t distance_[kQuad - 1];  // from the first lane's element to the others'
    Four quads_[kQuads];
  };
};

// A row for each channel, a column for each position (of a phase).
struct ImageOutput {
  float* data;
  int64_t group_stride, image_stride, channel_stride;
  Positions positions;
  int64_t row_stride, column_stride;
  const float* bias;  // null: none
  int64_t bias_group;
  bool quads;

  __device__ void select(int64_t group) {
    data += group * group_stride;
    if (bias != nullptr) bias += group * bias_group;
  }
  __device__ int64_t column(int64_t c) const {
    const ImagePlace at = positions.of(c);
    return at.image * image_stride + at.row * row_stride + at.column * column_stride;
  }
  __device__ float result(int64_t row, float total) const { return bias == nullptr ? total : total + bias[row]; }
  __device__ void put(int64_t row, int64_t place, float total) const {
    data[row * channel_stride + place] = result(row, total);
  }
  __device__ void put_quad(int64_t row, int64_t place, const Four& totals) const {
    Four results;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) results.of[i] = result(row, totals.of[i]);
    *reinterpret_cast<Four*>(data + row * channel_stride + place) = results;
  }
};

struct FilterOutput {
  float* data;
  int64_t group_stride, row_stride;
  const Term* terms;  // null: column c is element c of a filter
  bool quads;

  __device__ void select(int64_t group) { data += group * group_stride; }
  __device__ int64_t column(int64_t c) const { return terms == nullptr ? c : terms[c].weight; }
  __device__ void put(int64_t row, int64_t place, float total) const { data[row * row_stride + place] = total; }
  __device__ void put_quad(int64_t row, int64_t place, const Four& totals) const {
    *reinterpret_cast<Four*>(data + row * row_stride + place) = totals;
  }
};

// ---- The convolutions ----

struct GroupChannels {
  int64_t in, out;
};
GroupChannels channels_of(const Convolution& s) { return {s.channels_in / s.groups, s.channels_out / s.groups}; }

// Terms and lanes are counted by 32 bits.
void require_size(int64_t elements) {
  if (elements > INT32_MAX - 256)
    throw std::invalid_argument("a convolution of 2^31 positions, filter or image elements");
}

Image image_of(const float* data, int64_t channels, int64_t all_channels, int64_t height, int64_t width,
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
Image input_image(const Convolution& s, const float* x, const Term* terms) {
  return image_of(x, channels_of(s).in, s.channels_in, s.height, s.width, {s.output_height(), s.output_width()},
                  s.stride_height, s.stride_width, terms);
}

// One tap, which is inside of the image at every position.
bool is_plain(const std::vector<Tap>& rows, const std::vector<Tap>& columns, const Image& image) {
  if (rows.size() != 1 || columns.size() != 1) return false;
  const int64_t row = rows[0].distance, column = columns[0].distance;
  return row >= 0 && row + (image.positions.rows - 1) * image.row_stride < image.height && column >= 0 &&
         column + (image.positions.columns - 1) * image.column_stride < image.width;
}
// Each position has an element, in the same order.
bool is_dense(const Image& image) {
  return image.positions.rows == image.height && image.positions.columns == image.width && image.row_stride == 1 &&
         image.column_stride == 1;
}
PositionLanes plain_lanes(const Image& image, const Tap& row, const Tap& column) {
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

// A channel's terms as forward and filter gradients have them.
TermSizes input_terms(const Convolution& s, size_t rows, size_t columns) {
  return {channels_of(s).in,
          static_cast<int64_t>(rows),
          static_cast<int64_t>(columns),
          s.height * s.width,
          s.width,
          s.filter_height * s.filter_width,
          s.filter_width};
}

// The inputs of one phase.
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
  const Sizes product = {s.groups, channels.in, s.batch * inputs.rows * inputs.columns};
  Image image = image_of(dy, channels.out, s.channels_out, s.output_height(), s.output_width(), inputs, 1, 1, nullptr);
  if (is_plain(rows, columns, image)) {
    const int64_t tap = rows[0].tap * s.filter_width + columns[0].tap;
    const Strided<false> filters = {
        w + tap, taps, channels.in * taps, group, 0, 1, in_quads(w + tap, taps, channels.in, group)};
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
  Image image = input_image(s, x, nullptr);
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
  const Sizes product = {s.groups, channels.out, s.batch * positions};
  const char* const name = "convolution_forward";
  if (sizes.count() < filter) {  // taps that no output uses
    const TermList terms(sizes, rows, columns, queue);
    image.terms = terms.get();
    const Filters filters = {w, channels.out * filter, filter, terms.get()};
    return multiply(name, product, sizes.count(), filters, ImageByPosition{image}, out, queue);
  }
  const Strided<true> filters = {
      w, filter, 1, channels.out * filter, 0, 1, in_quads(w, 1, filter, channels.out * filter)};
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
    fill(dw, s.channels_out * filter, 0, execution);  // taps that no output uses
  if (sizes.count() == 0 || channels.out == 0 || s.batch * positions == 0) return;
  require_size(s.batch * positions);
  const Channels gradients = {dy, channels.out * positions, s.channels_out * positions, positions};
  Image image = input_image(s, x, nullptr);
  const Sizes product = {s.groups, channels.out, sizes.count()};
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
