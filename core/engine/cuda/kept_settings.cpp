#include "core/engine/cuda/kept_settings.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <iterator>

namespace estrain::cuda {
namespace {

// A flag of LibTorch, by its name in Python.
struct Setting {
  const char* name;
  int64_t (*read)(at::Context&);
  void (*write)(at::Context&, int64_t);
};

constexpr int64_t kMixed = -1;  // LibTorch's two sets of functions for TF32 were both used, and disagree

#define ESTRAIN_SETTING(name, getter, setter)                                                                       \
  {                                                                                                                 \
    name, [](at::Context& context) { return static_cast<int64_t>(context.getter()); },                              \
        [](at::Context& context, int64_t value) { context.setter(static_cast<decltype(context.getter())>(value)); } \
  }

int64_t read_tf32(bool (*allows)(at::Context&), at::Context& context) {
  try {
    return allows(context) ? 1 : 0;
  } catch (const c10::Error&) {
    return kMixed;
  }
}

// Without a precision for all operations, the precisions of products and convolutions decide.
void leave_precision_to_operations(at::Context& context) {
  for (const auto backend : {at::Float32Backend::GENERIC, at::Float32Backend::CUDA})
    context.setFloat32Precision(backend, at::Float32Op::ALL, at::Float32Precision::NONE);
}

void write_tf32_of_products(at::Context& context, int64_t allowed) {
  leave_precision_to_operations(context);
  context.setFloat32MatmulPrecision(allowed != 0 ? "high" : "highest");
  context.setAllowTF32CuBLAS(allowed != 0);
}

void write_tf32_of_convolutions(at::Context& context, int64_t allowed) {
  leave_precision_to_operations(context);
  context.setAllowTF32CuDNN(allowed != 0);
}

// 0: off; 1: operators without a deterministic algorithm raise; 2: they only warn.
int64_t read_deterministic(at::Context& context) {
  return context.deterministicAlgorithms() ? (context.deterministicAlgorithmsWarnOnly() ? 2 : 1) : 0;
}

bool reduces_precision(int64_t option) {
  return option == static_cast<int64_t>(at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK);
}

bool splits(int64_t option) {
  return option != static_cast<int64_t>(at::CuBLASReductionOption::DisallowReducedPrecisionDisallowSplitK);
}

constexpr Setting kSettings[] = {
    {"torch.use_deterministic_algorithms", read_deterministic,
     [](at::Context& context, int64_t value) { context.setDeterministicAlgorithms(value != 0, value == 2); }},
    ESTRAIN_SETTING("torch.backends.cudnn.deterministic", deterministicCuDNN, setDeterministicCuDNN),
    ESTRAIN_SETTING("torch.backends.cudnn.benchmark", benchmarkCuDNN, setBenchmarkCuDNN),
    ESTRAIN_SETTING("torch.backends.cudnn.enabled", userEnabledCuDNN, setUserEnabledCuDNN),
    {"torch.backends.cudnn.allow_tf32",
     [](at::Context& context) { return read_tf32([](at::Context& c) { return c.allowTF32CuDNN(); }, context); },
     write_tf32_of_convolutions},
    {"torch.backends.cuda.matmul.allow_tf32",
     [](at::Context& context) { return read_tf32([](at::Context& c) { return c.allowTF32CuBLAS(); }, context); },
     write_tf32_of_products},
    ESTRAIN_SETTING("torch.backends.cuda.matmul.allow_fp16_accumulation", allowFP16AccumulationCuBLAS,
                    setAllowFP16AccumulationCuBLAS),
    {"torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
     [](at::Context& context) { return static_cast<int64_t>(context.allowFP16ReductionCuBLAS()); },
     [](at::Context& context, int64_t value) {
       context.setAllowFP16ReductionCuBLAS(reduces_precision(value), splits(value));
     }},
    {"torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
     [](at::Context& context) { return static_cast<int64_t>(context.allowBF16ReductionCuBLAS()); },
     [](at::Context& context, int64_t value) {
       context.setAllowBF16ReductionCuBLAS(reduces_precision(value), splits(value));
     }},
    ESTRAIN_SETTING("torch.backends.cuda.preferred_blas_library", blasPreferredBackend, setBlasPreferredBackend),
    ESTRAIN_SETTING("torch.backends.cuda.preferred_linalg_library", linalgPreferredBackend, setLinalgPreferredBackend),
    ESTRAIN_SETTING("torch.backends.cuda.enable_flash_sdp", userEnabledFlashSDP, setSDPUseFlash),
    ESTRAIN_SETTING("torch.backends.cuda.enable_mem_efficient_sdp", userEnabledMemEfficientSDP, setSDPUseMemEfficient),
    ESTRAIN_SETTING("torch.backends.cuda.enable_math_sdp", userEnabledMathSDP, setSDPUseMath),
    ESTRAIN_SETTING("torch.backends.cuda.enable_cudnn_sdp", userEnabledCuDNNSDP, setSDPUseCuDNN),
    ESTRAIN_SETTING("torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp", allowFP16BF16ReductionMathSDP,
                    setAllowFP16BF16ReductionMathSDP),
};
#undef ESTRAIN_SETTING

class CudaSettings : public device::KeptSettings {
 public:
  CudaSettings() : stream_(c10::cuda::getCurrentCUDAStream()) {
    for (size_t i = 0; i < std::size(kSettings); ++i) values_[i] = kSettings[i].read(at::globalContext());
  }
  ~CudaSettings() override {
    try {
      restore();
    } catch (...) {  // the exception under way is the one to report
    }
  }

  std::vector<std::string> restore() override {
    std::vector<std::string> changed;
    for (size_t i = 0; i < std::size(kSettings); ++i) {
      if (kSettings[i].read(at::globalContext()) == values_[i]) continue;
      kSettings[i].write(at::globalContext(), values_[i]);
      changed.emplace_back(kSettings[i].name);
    }
    if (c10::cuda::current_device() != stream_.device_index()) {
      c10::cuda::set_device(stream_.device_index());
      changed.emplace_back("torch.cuda.set_device");
    }
    if (c10::cuda::getCurrentCUDAStream() != stream_) {
      c10::cuda::setCurrentCUDAStream(stream_);
      changed.emplace_back("torch.cuda.set_stream");
    }
    return changed;
  }

 private:
  int64_t values_[std::size(kSettings)];
  const c10::cuda::CUDAStream stream_;
};

}  // namespace

std::unique_ptr<device::KeptSettings> keep_settings() { return std::make_unique<CudaSettings>(); }

}  // namespace estrain::cuda
