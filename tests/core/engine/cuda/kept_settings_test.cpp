// Each setting that a user's code can leave changed is named, and set back.

#include "core/engine/cuda/kept_settings.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <doctest/doctest.h>

#include <functional>

#include "core/engine/cuda/determinism.h"
#include "simulated.h"

namespace estrain::cuda {
namespace {

using Names = std::vector<std::string>;

struct Change {
  const char* name;
  std::function<void(at::Context&)> make;
};

const std::vector<Change>& changes() {
  using Precision = at::Float32Precision;
  constexpr auto of_cuda = at::Float32Backend::CUDA;
  static const std::vector<Change> all = {
      {"torch.use_deterministic_algorithms", [](at::Context& c) { c.setDeterministicAlgorithms(false, false); }},
      {"torch.use_deterministic_algorithms", [](at::Context& c) { c.setDeterministicAlgorithms(true, true); }},
      {"torch.backends.cudnn.deterministic", [](at::Context& c) { c.setDeterministicCuDNN(false); }},
      {"torch.backends.cudnn.benchmark", [](at::Context& c) { c.setBenchmarkCuDNN(true); }},
      {"torch.backends.cudnn.enabled", [](at::Context& c) { c.setUserEnabledCuDNN(false); }},
      {"torch.backends.cudnn.allow_tf32", [](at::Context& c) { c.setAllowTF32CuDNN(true); }},
      {"torch.backends.cudnn.allow_tf32",
       [](at::Context& c) { c.setFloat32Precision(of_cuda, at::Float32Op::CONV, Precision::TF32); }},
      {"torch.backends.cudnn.allow_tf32",
       [](at::Context& c) { c.setFloat32Precision(at::Float32Backend::GENERIC, at::Float32Op::ALL, Precision::TF32); }},
      {"torch.backends.cuda.matmul.allow_tf32", [](at::Context& c) { c.setAllowTF32CuBLAS(true); }},
      {"torch.backends.cuda.matmul.allow_tf32", [](at::Context& c) { c.setFloat32MatmulPrecision("medium"); }},
      {"torch.backends.cuda.matmul.allow_tf32",
       [](at::Context& c) { c.setFloat32Precision(of_cuda, at::Float32Op::MATMUL, Precision::TF32); }},
      {"torch.backends.cuda.matmul.allow_fp16_accumulation",
       [](at::Context& c) { c.setAllowFP16AccumulationCuBLAS(true); }},
      {"torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
       [](at::Context& c) { c.setAllowFP16ReductionCuBLAS(false); }},
      {"torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
       [](at::Context& c) { c.setAllowBF16ReductionCuBLAS(false, false); }},
      {"torch.backends.cuda.preferred_blas_library",
       [](at::Context& c) { c.setBlasPreferredBackend(at::BlasBackend::Cublaslt); }},
      {"torch.backends.cuda.preferred_linalg_library",
       [](at::Context& c) { c.setLinalgPreferredBackend(at::LinalgBackend::Cusolver); }},
      {"torch.backends.cuda.enable_flash_sdp", [](at::Context& c) { c.setSDPUseFlash(false); }},
      {"torch.backends.cuda.enable_mem_efficient_sdp", [](at::Context& c) { c.setSDPUseMemEfficient(false); }},
      {"torch.backends.cuda.enable_math_sdp", [](at::Context& c) { c.setSDPUseMath(false); }},
      {"torch.backends.cuda.enable_cudnn_sdp", [](at::Context& c) { c.setSDPUseCuDNN(false); }},
      {"torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp",
       [](at::Context& c) { c.setAllowFP16BF16ReductionMathSDP(true); }},
      {"torch.cuda.set_device", [](at::Context&) { c10::cuda::set_device(1); }},
      {"torch.cuda.set_stream", [](at::Context&) { c10::cuda::setCurrentCUDAStream(copying_stream()); }},
  };
  return all;
}

TEST_CASE("each changed setting is named and set back; one that is not changed is not named") {
  gpu();
  for (const Tf32 tf32 : {Tf32::never, Tf32::allowed}) {
    compute_deterministically(tf32);
    for (const Change& change : changes()) {
      const std::string name = change.name;
      const bool is_so_already = tf32 == Tf32::allowed && name.ends_with("allow_tf32");
      if (is_so_already) continue;
      CAPTURE(name);
      const auto kept = keep_settings();
      change.make(at::globalContext());
      CHECK(kept->restore() == Names{name});
      CHECK(kept->restore().empty());
    }
  }
  CHECK(c10::cuda::current_device() == 0);
  CHECK(c10::cuda::getCurrentCUDAStream() == c10::cuda::getDefaultCUDAStream());
}

TEST_CASE("TF32 that a job allows stays allowed when the code forbids it") {
  gpu();
  compute_deterministically(Tf32::allowed);
  const auto kept = keep_settings();
  at::globalContext().setFloat32MatmulPrecision("highest");
  at::globalContext().setAllowTF32CuDNN(false);
  CHECK(kept->restore() == Names{"torch.backends.cudnn.allow_tf32", "torch.backends.cuda.matmul.allow_tf32"});
  CHECK(at::globalContext().allowTF32CuBLAS());
  CHECK(at::globalContext().allowTF32CuDNN());
}

TEST_CASE("settings are set back at the end, also where nobody asked") {
  gpu();
  compute_deterministically(Tf32::never);
  {
    const auto kept = keep_settings();
    at::globalContext().setBenchmarkCuDNN(true);
  }
  CHECK_FALSE(at::globalContext().benchmarkCuDNN());
}

}  // namespace
}  // namespace estrain::cuda
