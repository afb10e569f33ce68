// The switches of core/engine/cuda/determinism.h, which belong to LibTorch's CPU part and can be tested without a GPU.

#include "core/engine/cuda/determinism.h"

#include <ATen/Context.h>
#include <doctest/doctest.h>

namespace estrain::cuda {
namespace {

bool has_tf32(at::Float32Op op) {
  return at::globalContext().float32Precision(at::Float32Backend::CUDA, op) == at::Float32Precision::TF32;
}

TEST_CASE("TF32 is on where it is allowed, and off else, whichever way LibTorch asks") {
  at::Context& context = at::globalContext();
  for (const Tf32 tf32 : {Tf32::allowed, Tf32::never, Tf32::allowed}) {
    compute_deterministically(tf32);
    const bool on = tf32 == Tf32::allowed;
    CHECK(context.allowTF32CuBLAS() == on);
    CHECK(context.allowTF32CuDNN() == on);
    CHECK(context.allowTF32CuDNN(at::Float32Op::CONV) == on);
    CHECK(has_tf32(at::Float32Op::MATMUL) == on);
    CHECK(has_tf32(at::Float32Op::CONV) == on);
    CHECK(context.deterministicAlgorithms());
    CHECK(context.deterministicCuDNN());
    CHECK_FALSE(context.benchmarkCuDNN());
  }
}

}  // namespace
}  // namespace estrain::cuda
