#include "core/engine/device/cpu.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/native/DispatchStub.h>

#include <algorithm>
#include <fstream>

// MKL's vector library, exported by libtorch_cpu. The library's header is not in the wheel.
extern "C" void vmsSqrt(int n, const float* values, float* roots, int64_t mode);

namespace estrain::device {
namespace {

// VML_HA | VML_FTZDAZ_OFF | VML_ERRMODE_IGNORE, as in ATen's calls.
constexpr int64_t kVectorMathMode = 0x2 | 0x00140000 | 0x00000100;

void square_roots(float* roots, const float* values, size_t n) {
  vmsSqrt(static_cast<int>(n), values, roots, kVectorMathMode);
}

std::string cpuinfo_field(const std::string& field) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with(field + "\t") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

void configure_cpu(int64_t intra_op_threads) {
  at::set_num_threads(static_cast<int>(intra_op_threads));
  at::set_num_interop_threads(1);
}

kernels::Isa aten_isa() {
  const std::string capability = at::get_cpu_capability();
  if (capability == "AVX512") return kernels::Isa::avx512;
  if (capability == "AVX2") return kernels::Isa::avx2;
  return kernels::Isa::baseline;
}

kernels::Isa portable_isa() {
  const kernels::Isa aten = aten_isa();
  return aten == kernels::Isa::baseline ? std::min(kernels::best_isa(), kernels::Isa::fma128) : aten;
}

kernels::SquareRoots aten_square_roots() { return square_roots; }

std::string describe_processor() {
  return cpuinfo_field("vendor_id") + ", " + cpuinfo_field("model name") + ", family " + cpuinfo_field("cpu family") +
         " model " + cpuinfo_field("model") + ", " + at::get_cpu_capability();
}

}  // namespace estrain::device
