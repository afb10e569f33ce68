#pragma once
// Operands and outputs of a convolution as a matrix product (product.h, readers.h). Elements are read from the image
// when needed. A list of terms in the device's memory gives the elements' places.

#include "kernels/cuda/readers.h"

namespace estrain::kernels::cuda {

// A term of a sum over channels and taps: the offset of the term's element in the image, from a position's first
// element; the distance of the term's tap from the position; and the term's offset in a filter.
struct alignas(16) Term {
  int32_t offset, row, column, weight;
};
// Spare terms after the list, for tiles beyond the list's end: spare terms lie outside every image.
constexpr int64_t kSpareTerms = 128;
constexpr int32_t kOutside = INT32_MIN / 2;

__host__ __device__ inline int64_t quotient(int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return ((x | y) >> 32) == 0 ? static_cast<int64_t>(static_cast<uint32_t>(x) / static_cast<uint32_t>(y))
                              : static_cast<int64_t>(x / y);
}

// The positions of all images: position p is (image, row, column), column fastest.
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
  // Advances by `by` positions; step = of(by).
  __device__ void advance(ImagePlace& place, const ImagePlace& step) const {
    place.image += step.image;
    place.row += step.row;
    place.column += step.column;
    if (place.column >= columns) place.column -= static_cast<int32_t>(columns), ++place.row;
    if (place.row >= rows) place.row -= static_cast<int32_t>(rows), ++place.image;
  }
};

// An image, read at position * stride + the term's distance; +0 outside.
struct ImageOperand {
  const float* data;
  int64_t group_stride, image_stride;
  int32_t height, width;
  Positions positions;
  int32_t row_stride, column_stride;  // of positions
  const Term* terms;
  ImagePlace tile_step;  // positions.of(kTileSteps)

  // A position's first element. The element may lie outside the image, and so may the position.
  struct ImageOrigin {
    const float* at;
    int32_t row, column;
  };

  __device__ void select(int64_t group) { data += group * group_stride; }
  __device__ ImageOrigin origin(const ImagePlace& place) const {
    const int32_t row = place.row * row_stride, column = place.column * column_stride;
    return {data + place.image * image_stride + static_cast<int64_t>(row) * width + column, row, column};
  }
  __device__ ImageOrigin nowhere() const { return {data, kOutside, kOutside}; }
  __device__ float read(const ImageOrigin& from, const Term& term) const {
    const auto row = static_cast<uint32_t>(from.row + term.row),
               column = static_cast<uint32_t>(from.column + term.column);
    const bool inside = row < static_cast<uint32_t>(height) && column < static_cast<uint32_t>(width);
    return inside ? constant(from.at + term.offset) : 0.0f;
  }
};

// Each thread has one lane, the same in every tile.
struct ImageByPosition : ImageOperand {
  __device__ ImageOrigin lane(int64_t l) const { return origin(positions.of(l)); }
  __device__ Term step(int64_t k) const { return terms[k]; }
  __device__ float at(const ImageOrigin& lane, const Term& step) const { return read(lane, step); }

  template <int lanes>
  class Reader {
   public:
    __device__ Reader(const ImageByPosition& x, const LaneRange& of, int first_step)
        : own_(of.first + own_lane() < of.count ? x.lane(of.first + own_lane()) : x.nowhere()),
          next_(x.terms + first_step + own_step()) {}
    __device__ void read(const ImageByPosition& x, const LaneRange&, int, int) {
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
    ImageOrigin own_;
    const Term* next_;
    float values_[kEach];
  };
};

// Shared code of readers with neighbouring steps in neighbouring threads: each thread has one step of every tile.
template <int lanes>
struct StepEach {
  static constexpr int kEach = lanes * kTileSteps / kThreads, kLanesAtOnce = kThreads / kTileSteps;
  __device__ static int own_step() { return static_cast<int>(threadIdx.x) % kTileSteps; }
  __device__ static int own_lane() { return static_cast<int>(threadIdx.x) / kTileSteps; }
  // Returns the i-th of the thread's lanes in a tile, or the last lane if the thread has fewer lanes.
  __device__ static int lane(const LaneRange& of, int i) {
    return lesser_of(of.first + own_lane() + i * kLanesAtOnce, of.count - 1);
  }
  __device__ static bool whole(const LaneRange& of) { return of.first + lanes <= of.count; }
  // values[i] = from[i * stride], for existing lanes.
  __device__ void read(const float* from, int64_t stride, const LaneRange& of) {
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

struct ImageByTerm : ImageOperand {
  __device__ Term lane(int64_t l) const { return terms[l]; }
  __device__ ImageOrigin step(int64_t k) const { return origin(positions.of(k)); }
  __device__ float at(const Term& lane, const ImageOrigin& step) const { return read(step, lane); }

  template <int lanes>
  class Reader : StepEach<lanes> {
    using Each = StepEach<lanes>;

   public:
    __device__ Reader(const ImageByTerm& x, const LaneRange&, int first_step)
        : next_(x.positions.of(first_step + Each::own_step())) {}
    __device__ void read(const ImageByTerm& x, const LaneRange& of, int from, int end) {
      const ImageOrigin origin = from + Each::own_step() < end ? x.origin(next_) : x.nowhere();
      const Term* const terms = x.terms + of.first + Each::own_lane();
      constexpr int at_once = 4;
#pragma unroll
      for (int begin = 0; begin < Each::kEach; begin += at_once) {
        Term some[at_once];
#pragma unroll
        for (int i = 0; i < at_once; ++i) some[i] = terms[(begin + i) * Each::kLanesAtOnce];
#pragma unroll
        for (int i = 0; i < at_once; ++i) this->values[begin + i] = x.ImageOperand::read(origin, some[i]);
      }
      x.positions.advance(next_, x.tile_step);
    }
    __device__ void write(const ImageByTerm&, Tile<lanes>& to) const { Each::write(to); }

   private:
    ImagePlace next_;
  };
};

// Filters, with one lane for each channel of the result.
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
    __device__ Reader(const Filters& x, const LaneRange& of, int first_step)
        : own_(x.data + x.lane(Each::lane(of, 0))), next_(x.terms + first_step + Each::own_step()) {}
    __device__ void read(const Filters& x, const LaneRange& of, int, int) {
      Each::read(own_ + next_->weight, x.lane_stride, of);
      next_ += kTileSteps;
    }
    __device__ void write(const Filters&, Tile<lanes>& to) const { Each::write(to); }

   private:
    const float* own_;
    const Term* next_;
  };
};

// Images with one element per position: lanes are channels, steps are the positions of all images.
struct Channels {
  const float* data;
  int64_t group_stride, image_stride, positions;
  // Offset of kTileSteps positions: whole images, and a rest that may extend into one more image.
  int64_t tile_stride = kTileSteps / positions * (image_stride - positions) + kTileSteps;
  int tile_rest = static_cast<int>(kTileSteps % positions);

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
    __device__ Reader(const Channels& x, const LaneRange& of, int first_step) {
      const int64_t k = first_step + Each::own_step();
      place_ = static_cast<int>(k - quotient(k, x.positions) * x.positions);
      next_ = x.data + x.lane(Each::lane(of, 0)) + x.step(k);
    }
    __device__ void read(const Channels& x, const LaneRange& of, int from, int end) {
      Each::read(from + Each::own_step() < end ? next_ : x.data, x.positions, of);
      next_ += x.tile_stride;
      place_ += x.tile_rest;
      if (place_ >= x.positions) {
        place_ -= static_cast<int>(x.positions);
        next_ += x.image_stride - x.positions;
      }
    }
    __device__ void write(const Channels&, Tile<lanes>& to) const { Each::write(to); }

   private:
    const float* next_;
    int place_;  // the position in the image
  };
};

// The same images transposed: lanes are positions, steps are channels.
struct PositionLanes {
  const float* data;
  int64_t group_stride, image_stride, channel_stride;
  Positions positions;
  int32_t row_stride, column_stride;
  bool quads;  // four positions, starting at a multiple of four, are consecutive and 16-byte aligned

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
    __device__ Reader(const PositionLanes& x, const LaneRange& of, int first_step) {
      const int last = of.count - 1, l = of.first + own_lane();
      const int64_t first = x.lane(lesser_of(l, last));
#pragma unroll
      for (int i = 1; i < kQuad; ++i) distance_[i - 1] = static_cast<int32_t>(x.lane(lesser_of(l + i, last)) - first);
      next_ = x.data + first + (first_step + own_step()) * x.channel_stride;
    }
    __device__ void read(const PositionLanes& x, const LaneRange& of, int from, int end) {
      const int64_t between = kStepsAtOnce * x.channel_stride;
      if (x.quads && of.first + lanes <= of.count && from + kTileSteps <= end) {
#pragma unroll
        for (int i = 0; i < kQuads; ++i) quads_[i] = *reinterpret_cast<const Four*>(next_ + i * between);
      } else {
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
          // A step beyond the end reads the operand's last step again.
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

// Rows are channels, columns are positions (of a phase).
struct ImageOutput {
  float* data;
  int64_t group_stride, image_stride, channel_stride;
  Positions positions;
  int64_t row_stride, column_stride;
  const float* bias;  // null: no bias
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
  __device__ float* at(int64_t row, int64_t place) const { return data + row * channel_stride + place; }
  __device__ float result(int64_t row, int64_t, float total) const {
    return bias == nullptr ? total : total + bias[row];
  }
};

struct FilterOutput {
  float* data;
  int64_t group_stride, row_stride;
  const Term* terms;  // null: column c is element c of a filter
  bool quads;

  __device__ void select(int64_t group) { data += group * group_stride; }
  __device__ int64_t column(int64_t c) const { return terms == nullptr ? c : terms[c].weight; }
  __device__ float* at(int64_t row, int64_t place) const { return data + row * row_stride + place; }
  __device__ float result(int64_t, int64_t, float total) const { return total; }
};

}  // namespace estrain::kernels::cuda
