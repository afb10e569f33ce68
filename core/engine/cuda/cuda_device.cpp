#include "core/engine/cuda/cuda_device.h"

#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/ops/_index_put_impl_cuda_dispatch.h>
#include <ATen/ops/add_cuda_dispatch.h>
#include <ATen/ops/cumprod_cuda_dispatch.h>
#include <ATen/ops/cumsum_cuda_dispatch.h>
#include <ATen/ops/div_cuda_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/floor_divide_cuda_dispatch.h>
#include <ATen/ops/fmod_cuda_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_add_cuda_dispatch.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow_cuda_dispatch.h>
#include <ATen/ops/prod_cuda_dispatch.h>
#include <ATen/ops/remainder_cuda_dispatch.h>
#include <ATen/ops/scatter_add_cuda_dispatch.h>
#include <ATen/ops/scatter_reduce_cuda_dispatch.h>
#include <ATen/ops/sort_cuda_dispatch.h>
#include <ATen/ops/sub_cuda_dispatch.h>
#include <ATen/ops/sum_cuda_dispatch.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/engine/cuda/copies/mirror.h"
#include "core/engine/cuda/determinism.h"
#include "core/engine/cuda/graph_capture.h"
#include "core/engine/cuda/nccl_exchange.h"
#include "core/engine/device/cpu.h"

namespace estrain::cuda {
namespace {

constexpr size_t kLeastRoom = size_t{256} << 20;

cudaDeviceProp properties_of(c10::DeviceIndex index) {
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return properties;
}

// Returns the type of a GPU. The type determines the GPU's algorithms and their speed.
std::string type_of(c10::DeviceIndex index) {
  const cudaDeviceProp properties = properties_of(index);
  return fmt::format("{}, sm_{}{}, {} multiprocessors", properties.name, properties.major, properties.minor,
                     properties.multiProcessorCount);
}

// Touches only the chosen GPU: a query of another GPU would create a context on it.
void require_gpu(c10::DeviceIndex index) {
  int count = 0;
  const cudaError_t failure = cudaGetDeviceCount(&count);
  if (failure != cudaSuccess) {
    throw Error::make(Fault::device, "CUDA does not start: {}", cudaGetErrorString(failure))
        .advise("CUDA 13 needs driver version 580 or newer; check nvidia-smi");
  }
  if (index < count) return;
  throw Error::make(Fault::device, "there is no cuda:{}: {} GPU{} visible, counted from cuda:0", index, count,
                    count == 1 ? " is" : "s are")
      .advise("name an existing one, or check CUDA_VISIBLE_DEVICES")
      .caused_by("device_missing");
}

// Runs one kernel, since only a kernel shows whether LibTorch has code for this GPU.
void require_code(c10::DeviceIndex index) {
  try {
    const at::Tensor two = at::ones({1}, at::TensorOptions(at::kFloat).device(c10::Device(c10::kCUDA, index))).mul(2);
    if (two.item<float>() == 2) return;
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find("no kernel image") == std::string::npos) {
      throw Error::make(Fault::device, "cuda:{} does not compute: {}", index, text)
          .advise("check nvidia-smi; another process may hold the GPU or all of its memory");
    }
    const cudaDeviceProp properties = properties_of(index);
    throw Error::make(Fault::device,
                      "cuda:{} is a {} (sm_{}{}): this LibTorch has no code for it (no kernel image is available)",
                      index, properties.name, properties.major, properties.minor)
        .advise("LibTorch for CUDA 13 needs a GPU of sm_75 (Turing) or newer");
  }
  throw Error::make(Fault::device, "cuda:{} computes 1 * 2 wrongly", index).advise("take it out of use");
}

c10::cuda::CUDAStream stream_of(c10::DeviceIndex index, const device::DeviceOptions& options) {
  require_gpu(index);
  c10::cuda::set_device(index);
  compute_deterministically(options.tf32 ? Tf32::allowed : Tf32::never);
  require_code(index);
  return c10::cuda::getStreamFromPool(/*isHighPriority=*/true, index);
}

// Allocates page-locked host memory. Throws c10::Error.
std::shared_ptr<at::DataPtr> page_locked(size_t bytes) {
  return std::make_shared<at::DataPtr>(at::getHostAllocator(at::kCUDA)->allocate(bytes));
}

// Not by LibTorch's allocator, which rounds up to a power of two. Addresses are unified: the GPU uses the host's.
std::shared_ptr<std::byte> new_mapped_memory(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  if (error == cudaSuccess)
    return {static_cast<std::byte*>(memory), [](std::byte* begin) { (void)cudaFreeHost(begin); }};
  (void)cudaGetLastError();
  throw Error::make(Fault::device, "job.state = \"host\": Cannot allocate memory: {} bytes, page-locked ({})", bytes,
                    cudaGetErrorString(error))
      .advise("free host memory, raise the memory limit of the job (cgroup), or use more GPUs");
}

}  // namespace

CudaDevice::CudaDevice(c10::DeviceIndex index, const device::DeviceOptions& options)
    : index_(index),
      to_host_(stream_of(index, options)),
      exchanges_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, index)),
      uploads_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, index)),
      queue_(index),
      arrivals_([index] { c10::cuda::set_device(index); }) {
  if (options.graphs) captured_passes_.emplace(std::make_unique<GraphCapture>(index));
}

std::string CudaDevice::describe() const {
  return fmt::format("{}, cuDNN {}; {}", type_of(index_), at::detail::getCUDAHooks().versionRuntimeCuDNN(),
                     device::describe_processor());
}

uint64_t CudaDevice::memory() const { return properties_of(index_).totalGlobalMem; }

const device::LibraryKernels& CudaDevice::library_kernels() const {
  static constexpr device::LibraryKernels kernels = ESTRAIN_LIBRARY_KERNELS(at::cuda);
  return kernels;
}

void CudaDevice::pin_algorithms(const algorithms::Pinning& pinning) { pinned_.emplace(pinning, type_of(index_)); }

std::optional<at::Generator> CudaDevice::generator() const {
  return at::globalContext().defaultGenerator(torch_device());
}

// If the system refuses, copies are slower and synchronous, so the worker waits for the copies.
void CudaDevice::expect_copies(std::byte* host, size_t bytes) {
  if (bytes == 0) return;
  const cudaError_t error = cudaHostRegister(host, bytes, cudaHostRegisterPortable);
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();
  if (error == cudaErrorHostMemoryAlreadyRegistered) return;
  fmt::print(stderr, "warning: {} bytes of the shared state are not page-locked, copies will be slow: {}\n", bytes,
             cudaGetErrorString(error));
}

std::unique_ptr<device::Mirror> CudaDevice::mirror(size_t bytes, device::MirrorUse use) {
  // Room for the gradients of two mini-batches: one arriving, one being processed.
  if (use == device::MirrorUse::read_only) arrivals_.set_room(std::max(kLeastRoom, 2 * bytes));
  return std::make_unique<CudaMirror>(bytes, to_host_, arrivals_);
}

// Page-locked, while the system has such memory; LibTorch keeps the memory for the next stage.
HostMemory CudaDevice::host_memory() const {
  return [index = index_](size_t bytes) -> std::shared_ptr<std::byte> {
    c10::cuda::set_device(index);  // otherwise the calling thread would open the first GPU
    try {
      const auto memory = page_locked(bytes);
      return {memory, static_cast<std::byte*>(memory->get())};
    } catch (const c10::Error&) {
      (void)cudaGetLastError();
      return nullptr;
    }
  };
}

at::Tensor CudaDevice::mapped_memory(size_t bytes) {
  const auto options = at::TensorOptions(at::kByte);
  if (bytes == 0) return at::empty({0}, options);
  // With more GPUs a share of the slots is smaller: the host needs the rest.
  const bool is_too_large = bytes <= mapped_bytes_ / 2;
  if (!mapped_ || mapped_.use_count() > 1 || mapped_bytes_ < bytes || is_too_large) {
    mapped_.reset();
    mapped_ = new_mapped_memory(bytes);
    mapped_bytes_ = bytes;
  }
  return at::from_blob(
      mapped_.get(), {static_cast<int64_t>(bytes)}, [used = mapped_](void*) {}, options);
}

void CudaDevice::read(const at::Tensor& values, Reader reader) {
  const size_t bytes = values.nbytes();
  const auto staging = page_locked(bytes);
  const Copied copied = copy_to_host(staging->get(), values.const_data_ptr(), bytes, to_host_);
  arrivals_.push({[copied] { copied->synchronize(); },
                  [values, staging, reader = std::move(reader)] { reader(static_cast<const float*>(staging->get())); },
                  bytes});
}

void CudaDevice::download(const at::Tensor& values, std::byte* host, std::function<void()> then) {
  const auto copy = values.is_cpu() ? copy_within_host : copy_to_host;
  const Copied copied = copy(host, values.const_data_ptr(), values.nbytes(), to_host_);
  arrivals_.push({[copied] { copied->synchronize(); }, [values, then = std::move(then)] { then(); }});
}

void CudaDevice::await_downloads() {
  c10::cuda::CUDAEvent copied(cudaEventDisableTiming);
  copied.record(to_host_);
  copied.block(c10::cuda::getCurrentCUDAStream(index_));
}

void CudaDevice::defer(std::function<void()> action) { arrivals_.push({{}, std::move(action)}); }

device::ExchangeId CudaDevice::new_exchange() { return new_nccl_id(); }

std::unique_ptr<device::DeviceExchange> CudaDevice::open_exchange(const device::ExchangeId& id,
                                                                  const device::ExchangeParty& party) {
  c10::cuda::set_device(index_);  // otherwise another thread than the device's would open the first GPU
  return open_nccl_exchange(id, exchanges_, party);
}

void CudaDevice::finish() {
  arrivals_.finish();
  c10::cuda::getCurrentCUDAStream(index_).synchronize();
  uploads_.finish();
}

}  // namespace estrain::cuda

// The function that the worker library looks up (device::OpenCudaDevice).
extern "C" estrain::device::ComputeDevice* estrain_open_cuda_device(int index,
                                                                    const estrain::device::DeviceOptions& options) {
  using namespace estrain;
  try {
    return new cuda::CudaDevice(static_cast<c10::DeviceIndex>(index), options);
  } catch (const c10::Error& error) {
    throw Error::make(Fault::device, "cuda:{} cannot be initialised: {}", index, error.what_without_backtrace())
        .advise("check nvidia-smi");
  }
}
