#pragma once
// Readers bring the operands of a product (product.h) from device memory to shared memory, in tiles of kTileSteps terms
// by 64 or 128 lanes (rows or columns). An operand's Reader<lanes> belongs to a thread. During the work on a tile the
// reader holds the thread's part of the next tile in registers:
//
//   Reader(operand, LaneRange, first step)
//   read(operand, LaneRange, step, end)
//                                     elements from `step` on, kTileSteps further with every call; elements of missing
//                                     lanes and steps count for nothing, and the reader reads only memory of the
//                                     operand
//   write(operand, tile)              the elements of the last read()
//
// Registers are scarce, so lanes and steps are 32-bit numbers.

#include "kernels/cuda/fours.h"
#include "kernels/cuda/value.h"
#include "kernels/portable/order.h"

namespace estrain::kernels::cuda {

using portable::divide_up;
using portable::kBlock;

static constexpr int kTileSteps = 16;
static constexpr int kQuad = 4;
static constexpr int kGroup = 64;  // lanes

template <int lanes>
struct alignas(16) Tile {
  float at[kTileSteps][lanes + kQuad];
};

// The lanes of a tile, from lane `first` of `count` on.
struct LaneRange {
  int first, count;
};

// Keeps the compiler from holding an array in registers.
__device__ inline float* in_memory(float* array) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(array)::"memory");
#endif
  return array;
}

// Returns the same number, but hides the value from the compiler. The compiler then recomputes derived values when
// needed instead of keeping derived values in registers.
__device__ inline int forgotten(int x) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(x));
#endif
  return x;
}

// Reads device memory that no thread of the launch writes.
__device__ inline float constant(const float* at) {
#ifdef __CUDA_ARCH__
  return __ldg(at);
#else
  return *at;
#endif
}

__host__ __device__ inline int lesser_of(int a, int b) { return a < b ? a : b; }

// Returns whether one access can read a quad from `data` on: all strides except `along` are multiples of a quad.
static inline bool in_quads(const float* data, int64_t along, int64_t stride, int64_t other = 0, int64_t another = 0) {
  return along == 1 && are_aligned(data) && stride % kQuad == 0 && other % kQuad == 0 && another % kQuad == 0;
}

// An operand with strides. Quads are read along steps (steps_adjacent) or along lanes.
template <bool steps_adjacent>
struct Strided {
  const float* data;
  int64_t lane_stride, step_stride;
  int64_t batch_stride;
  bool quads;  // in_quads()

  __device__ void select(int64_t z) { data += z * batch_stride; }
  __device__ int64_t lane(int64_t l) const { return l * lane_stride; }
  __device__ int64_t step(int64_t k) const { return k * step_stride; }
  __device__ float at(int64_t lane, int64_t step) const { return data[lane + step]; }

  template <int lanes>
  class Reader {
   public:
    __device__ Reader(const Strided& x, const LaneRange& of, int first_step)
        : next_(x.data + (of.first + lane(0)) * x.lane_stride + (first_step + step(0)) * x.step_stride) {}

    __device__ void read(const Strided& x, const LaneRange& of, int from, int end) {
      if (x.quads && of.first + lanes <= of.count && from + kTileSteps <= end) {
        const int64_t between = steps_adjacent ? kGroup * x.lane_stride : kStepsAtOnce * x.step_stride;
#pragma unroll
        for (int i = 0; i < kQuads; ++i) quads_[i] = *reinterpret_cast<const Four*>(next_ + i * between);
      } else {
        const int first = forgotten(of.first);
#pragma unroll
        for (int i = 0; i < kQuads; ++i) {
#pragma unroll
          for (int j = 0; j < kQuad; ++j) {
            const int l = first + lane(i) + (steps_adjacent ? 0 : j);
            const int k = from + step(i) + (steps_adjacent ? j : 0);
            quads_[i].of[j] =
                x.data[lesser_of(l, of.count - 1) * x.lane_stride + lesser_of(k, end - 1) * x.step_stride];
          }
        }
      }
      next_ += kTileSteps * x.step_stride;
    }

    __device__ void write(const Strided&, Tile<lanes>& to) const {
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        if (steps_adjacent) {
#pragma unroll
          for (int j = 0; j < kQuad; ++j) to.at[step(i) + j][lane(i)] = quads_[i].of[j];
        } else {
          *reinterpret_cast<Four*>(&to.at[step(i)][lane(i)]) = quads_[i];
        }
      }
    }

   private:
    static constexpr int kQuads = lanes / kGroup, kLaneQuads = lanes / kQuad, kStepsAtOnce = kThreads / kLaneQuads;
    // The first lane of the i-th quad.
    __device__ static int lane(int i) {
      const int t = static_cast<int>(threadIdx.x);
      return steps_adjacent ? t / kQuad + i * kGroup : t % kLaneQuads * kQuad;
    }
    __device__ static int step(int i) {
      const int t = static_cast<int>(threadIdx.x);
      return steps_adjacent ? t % kQuad * kQuad : t / kLaneQuads + i * kStepsAtOnce;
    }

    const float* next_;  // the first quad
    Four quads_[kQuads];
  };
};

}  // namespace estrain::kernels::cuda
