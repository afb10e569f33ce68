#pragma once
// How operands of a product (product.h) get from the device's memory to shared memory: tiles of kTileSteps terms of 64
// or 128 lanes (rows or columns). An operand's Reader<lanes> belongs to a thread and has its share of each tile in
// registers while the tile before is worked on:
//
//   Reader(operand, Lanes, first step)
//   read(operand, Lanes, step, end)   elements from `step` on, kTileSteps further with every call; what it brings for
//                                     lanes and steps that there are not counts for nothing, and only memory of the
//                                     operand is read
//   write(operand, tile)              what was read last
//
// Registers are dear: lanes and steps are counted by 32-bit numbers.

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

// Of a tile: it begins with lane `first`, of `count` in all.
struct Lanes {
  int first, count;
};

// An array that the compiler does not keep in registers.
__device__ inline float* in_memory(float* array) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(array)::"memory");
#endif
  return array;
}

// The same number, as one that the compiler knows nothing of: what follows from it is computed again where it is
// needed, and not kept in registers.
__device__ inline int forgotten(int x) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(x));
#endif
  return x;
}

// What no thread of the launch writes, in the device's memory.
__device__ inline float constant(const float* at) {
#ifdef __CUDA_ARCH__
  return __ldg(at);
#else
  return *at;
#endif
}

__host__ __device__ inline int lesser_of(int a, int b) { return a < b ? a : b; }

// Whether quads from there on can be read at once: all strides but the one along the quad are multiples of it.
static inline bool in_quads(const float* data, int64_t along, int64_t stride, int64_t other = 0, int64_t another = 0) {
  return along == 1 && are_aligned(data) && stride % kQuad == 0 && other % kQuad == 0 && another % kQuad == 0;
}

// An operand by strides. Quads are read along steps (steps_adjacent) or along lanes.
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
    __device__ Reader(const Strided& x, const Lanes& of, int first_step)
        : next_(x.data + (of.first + lane(0)) * x.lane_stride + (first_step + step(0)) * x.step_stride) {}

    __device__ void read(const Strided& x, const Lanes& of, int from, int end) {
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
    // Where the i-th quad begins.
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
