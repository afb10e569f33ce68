#include "core/engine/device/cpu.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/ops/_index_put_impl_cpu_dispatch.h>
#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/cumprod_cpu_dispatch.h>
#include <ATen/ops/cumsum_cpu_dispatch.h>
#include <ATen/ops/div_cpu_dispatch.h>
#include <ATen/ops/floor_divide_cpu_dispatch.h>
#include <ATen/ops/fmod_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_add_cpu_dispatch.h>
#include <ATen/ops/pow_cpu_dispatch.h>
#include <ATen/ops/prod_cpu_dispatch.h>
#include <ATen/ops/remainder_cpu_dispatch.h>
#include <ATen/ops/scatter_add_cpu_dispatch.h>
#include <ATen/ops/scatter_reduce_cpu_dispatch.h>
#include <ATen/ops/sort_cpu_dispatch.h>
#include <ATen/ops/sub_cpu_dispatch.h>
#include <ATen/ops/sum_cpu_dispatch.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

// MKL's vector library, exported by libtorch_cpu. The library's header is not in the wheel.
extern "C" void vmsSqrt(int n, const float* values, float* roots, int64_t mode);

namespace estrain::device {
namespace {

// VML_HA | VML_FTZDAZ_OFF | VML_ERRMODE_IGNORE, as in ATen's calls.
constexpr int64_t kVectorMathMode = 0x2 | 0x00140000 | 0x00000100;

constexpr size_t kBlockOfZeros = 64;  // floats

bool are_zeros(const float* values, size_t n) {
  uint32_t bits = 0;
  for (size_t i = 0; i < n; ++i) bits |= std::bit_cast<uint32_t>(values[i]);
  return bits == 0;
}

// MKL takes several times as long for a zero as for other values. An embedding has many: the second moments of rows
// that no sample has named yet. The root of +0 is +0, and MKL's results do not depend on a value's place.
void square_roots(float* roots, const float* values, size_t n) {
  size_t taken = 0;
  const auto take = [&](size_t end) {
    if (end > taken) vmsSqrt(static_cast<int>(end - taken), values + taken, roots + taken, kVectorMathMode);
  };
  for (size_t begin = 0; begin < n; begin += kBlockOfZeros) {
    const size_t size = std::min(kBlockOfZeros, n - begin);
    if (!are_zeros(values + begin, size)) continue;
    take(begin);
    std::fill_n(roots + begin, size, 0.0f);
    taken = begin + size;
  }
  take(n);
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

constexpr size_t kAlignment = 64;

c10::Storage storage_over(std::byte* memory, size_t bytes) {
  return at::from_blob(memory, {static_cast<int64_t>(bytes)}, at::kByte).storage();
}

// Uses the region itself: changing the region costs one pointer update, for any number of tensors.
class InPlace : public Mirror {
 public:
  explicit InPlace(size_t bytes) : storage_(storage_over(&nothing_, bytes)) {}

  const c10::Storage& storage() const override { return storage_; }
  void load(std::byte* host) override {
    storage_.unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(host, c10::Device(c10::kCPU)));
  }
  void store(std::byte*, std::function<void()> then) override { then(); }

 private:
  std::byte nothing_{};  // until the first load
  c10::Storage storage_;
};

class Copy : public Mirror {
 public:
  explicit Copy(size_t bytes)
      : bytes_(bytes),
        memory_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment))) {
    if (!memory_) throw std::bad_alloc();
    storage_ = storage_over(memory_.get(), bytes);
  }

  const c10::Storage& storage() const override { return storage_; }
  void load(std::byte* host) override { std::memcpy(memory_.get(), host, bytes_); }
  void store(std::byte* host, std::function<void()> then) override {
    std::memcpy(host, memory_.get(), bytes_);
    then();
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
  c10::Storage storage_;
};

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

const LibraryKernels cpu_library_kernels = ESTRAIN_LIBRARY_KERNELS(at::cpu);

std::string CpuDevice::describe() const { return describe_processor(); }

void CpuDevice::download(const at::Tensor& values, std::byte* host, std::function<void()> then) {
  std::memcpy(host, values.const_data_ptr(), values.nbytes());
  then();
}

std::unique_ptr<Mirror> CpuDevice::mirror(size_t bytes, MirrorUse use) {
  if (use == MirrorUse::read_only) return std::make_unique<InPlace>(bytes);
  return std::make_unique<Copy>(bytes);
}

}  // namespace estrain::device
