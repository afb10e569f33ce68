// CUDA's runtime (libcudart.so.13) on a simulated GPU (machine.h): the functions that LibTorch and libestrain_cuda.so
// call in the tests. A call of any other function ends the process with its name (missing.py).
//
// The GPU's memory is process memory, inaccessible while the GPU is idle (memory.h); values read before they were
// computed are junk. LibTorch's kernels compute nothing (operators.cpp does).

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>

#include "tests/simulated_gpu/machine.h"
#include "tests/simulated_gpu/memory.h"

namespace estrain::simulated {
namespace {

constexpr int kGpus = 8;
constexpr size_t kMemory = size_t{64} << 30;  // by default
constexpr size_t kPage = 4096, kLargePage = size_t{2} << 20;

// Returns the size of a GPU's memory. A GPU has the memory of one process. ESTRAIN_SIMULATED_CAPACITY=BYTES gives
// another size than the default.
size_t capacity() {
  static const char* const bytes = std::getenv("ESTRAIN_SIMULATED_CAPACITY");
  static const size_t size = bytes == nullptr ? kMemory : std::strtoull(bytes, nullptr, 10);
  return size;
}

Machine& machine() { return Machine::of_process(); }

Stream* of(cudaStream_t stream) { return machine().stream(stream); }
Moment* of(cudaEvent_t event) { return reinterpret_cast<Moment*>(event); }

DeviceMemory& device_memory() { return DeviceMemory::of_process(); }
Pieces& page_locked() {
  static auto* const pieces = new Pieces();
  return *pieces;
}

cudaError_t returned(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

// The error that every later call returns.
cudaError_t state() { return machine().is_broken() ? cudaErrorIllegalAddress : cudaSuccess; }
cudaError_t of_query(bool is_done) {
  return returned(machine().is_broken() ? state() : is_done ? cudaSuccess : cudaErrorNotReady);
}

bool is_captured(cudaStream_t stream) { return of(stream)->captured != nullptr; }

cudaError_t synchronize(cudaStream_t stream) {
  count(Call::host_wait);
  if (is_captured(stream)) return returned(cudaErrorStreamCaptureUnsupported);
  machine().synchronize(machine().now(of(stream)));
  return returned(state());
}

// Page-locked memory is copied in stream order. Other host memory is read at once, or waited for.
cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  const auto is_pageable = [](const void* place) {
    return !device_memory().contain(place) && !page_locked().contain(place);
  };
  if (bytes == 0) return cudaSuccess;
  if (is_captured(stream) && (is_pageable(to) || is_pageable(from))) return returned(cudaErrorStreamCaptureUnsupported);
  if (is_pageable(from)) {
    auto staged = std::make_shared<std::vector<std::byte>>(bytes);
    std::memcpy(staged->data(), from, bytes);
    machine().put(of(stream), [to, staged, bytes] { std::memcpy(to, staged->data(), bytes); });
  } else {
    machine().put(of(stream), [to, from, bytes] { std::memmove(to, from, bytes); });
  }
  return is_pageable(to) ? synchronize(stream) : returned(state());
}

int attribute(cudaDeviceAttr asked) {
  switch (asked) {
    case cudaDevAttrMultiProcessorCount:
      return 3;
    case cudaDevAttrComputeCapabilityMajor:
      return 9;
    case cudaDevAttrComputeCapabilityMinor:
      return 0;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMaxThreadsPerBlock:
      return 1024;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 48 << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return 227 << 10;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return 228 << 10;
    case cudaDevAttrMaxGridDimX:
      return 0x7FFFFFFF;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    default:
      return 0;
  }
}

std::unordered_map<const void*, std::string>& kernel_names() {
  static auto* const names = new std::unordered_map<const void*, std::string>();
  return *names;
}

cudaError_t launched(const void* kernel) {
  if (!ComputedElsewhere::is_so()) fail("nobody computes what this kernel should: " + kernel_names()[kernel]);
  return returned(state());
}

// Records a process's peak memory in a file in the folder ESTRAIN_SIMULATED_MEMORY.
void note_memory() {
  static const char* const folder = std::getenv("ESTRAIN_SIMULATED_MEMORY");
  static size_t most = 0;
  if (folder == nullptr || device_memory().bytes() <= most) return;
  most = device_memory().bytes();
  std::ofstream(std::string(folder) + "/" + std::to_string(::getpid())) << most;
}

// Memory in large pages, where there are such: it is opened and closed often (memory.h). Null: there is none.
void* new_block(size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const size_t before = -reinterpret_cast<uintptr_t>(memory) % kLargePage;
  auto* const block = static_cast<std::byte*>(memory) + before;
  if (before > 0) ::munmap(memory, before);
  if (before < kLargePage) ::munmap(block + bytes, kLargePage - before);
  ::madvise(block, bytes, MADV_HUGEPAGE);
  return block;
}

thread_local int current_device = 0;

}  // namespace
}  // namespace estrain::simulated

using namespace estrain::simulated;

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* kernel, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  kernel_names()[kernel] = name;
}
cudaError_t __cudaGetKernel(cudaKernel_t* found, const void* kernel) {
  *found = static_cast<cudaKernel_t>(const_cast<void*>(kernel));
  return cudaSuccess;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
static thread_local Configuration configuration;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t, cudaStream_t) {
  return launched(kernel);
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3, dim3, void**, size_t, cudaStream_t) { return launched(kernel); }
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void* kernel, void**) { return launched(kernel); }
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* with) {
  machine().put(of(stream), [call, with] { call(with); });
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->maxDynamicSharedSizeBytes = 48 << 10;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kGpus;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr asked, int) {
  *value = attribute(asked);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "simulated GPU");
  properties->major = attribute(cudaDevAttrComputeCapabilityMajor);
  properties->minor = attribute(cudaDevAttrComputeCapabilityMinor);
  properties->multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
  properties->totalGlobalMem = capacity();
  properties->warpSize = attribute(cudaDevAttrWarpSize);
  properties->maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock);
  properties->maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  properties->sharedMemPerBlock = static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlock));
  properties->sharedMemPerBlockOptin = static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  properties->sharedMemPerMultiprocessor = static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = attribute(cudaDevAttrMaxGridDimX);
  properties->maxGridSize[1] = properties->maxGridSize[2] = attribute(cudaDevAttrMaxGridDimY);
  properties->maxBlocksPerMultiProcessor = 32;
  properties->textureAlignment = 512;
  properties->l2CacheSize = 50 << 20;
  properties->unifiedAddressing = properties->canMapHostMemory = properties->concurrentKernels = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  count(Call::host_wait);
  machine().synchronize();
  return returned(state());
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorStreamCaptureUnsupported) return "operation not permitted when stream is capturing";
  if (error == cudaErrorIllegalAddress) return "an illegal memory access was encountered";
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the simulated GPU";
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
cudaError_t cudaGetLastError() {
  const auto last = static_cast<cudaError_t>(std::exchange(last_error(), cudaSuccess));
  return machine().is_broken() ? state() : last;
}
cudaError_t cudaPeekAtLastError() { return machine().is_broken() ? state() : static_cast<cudaError_t>(last_error()); }

cudaError_t cudaMalloc(void** place, size_t bytes) {
  bytes = (bytes + kPage - 1) / kPage * kPage;
  static Fault fault("memory");
  static bool is_full = false;  // from then on
  is_full = is_full || fault.strikes();
  if (is_full || device_memory().bytes() + bytes > capacity()) {
    machine().synchronize();  // as the driver does: it may find memory that pending work gives back
    return returned(cudaErrorMemoryAllocation);
  }
  *place = new_block(bytes);
  if (*place == nullptr) return returned(cudaErrorMemoryAllocation);
  std::memset(*place, kJunk, bytes);
  device_memory().add(*place, bytes);
  note_memory();
  return cudaSuccess;
}
cudaError_t cudaFree(void* place) {
  machine().synchronize();
  if (const size_t bytes = device_memory().remove(place)) ::munmap(place, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* all) {
  *free = capacity() - device_memory().bytes();
  *all = capacity();
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** place, size_t bytes, unsigned) {
  *place = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (*place == nullptr) return returned(cudaErrorMemoryAllocation);
  page_locked().add(*place, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* place) {
  machine().synchronize();
  page_locked().remove(place);
  std::free(place);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* place, size_t bytes, unsigned) {
  if (page_locked().contain(place)) return returned(cudaErrorHostMemoryAlreadyRegistered);
  page_locked().add(place, bytes);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* place) {
  machine().synchronize();
  page_locked().remove(place);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* place) {
  *attributes = {};
  attributes->type = device_memory().contain(place) ? cudaMemoryTypeDevice
                     : page_locked().contain(place) ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeUnregistered;
  attributes->devicePointer = attributes->hostPointer = const_cast<void*>(place);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return copy(to, from, bytes, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  const cudaError_t error = copy(to, from, bytes, nullptr);
  return error == cudaSuccess ? synchronize(nullptr) : error;
}
cudaError_t cudaMemsetAsync(void* place, int value, size_t bytes, cudaStream_t stream) {
  machine().put(of(stream), [=] { std::memset(place, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = reinterpret_cast<cudaStream_t>(machine().new_stream());
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (is_captured(stream)) return returned(cudaErrorStreamCaptureUnsupported);
  return of_query(machine().is_done(machine().now(of(stream))));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return synchronize(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  count(Call::stream_wait);
  machine().await(of(stream), *of(event));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Moment());
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (is_captured(stream)) fail("an event is recorded in a capture");
  *of(event) = machine().now(of(stream));
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return of_query(machine().is_done(*of(event))); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  count(Call::host_wait);
  machine().synchronize(*of(event));
  return returned(state());
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  thread_local std::minstd_rand lots(static_cast<unsigned>(::getpid()));
  *milliseconds = std::uniform_real_distribution<float>(5, 20)(lots);  // any algorithm may be the fastest
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  machine().begin_capture(of(stream), new Graph());
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = reinterpret_cast<cudaGraph_t>(of(stream)->captured);
  machine().end_capture(of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = is_captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  if (id != nullptr) *id = reinterpret_cast<unsigned long long>(of(stream)->captured);
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(of(stream)->captured);
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  std::swap(current, *mode);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = reinterpret_cast<Graph*>(graph)->size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  machine().put(of(stream), *reinterpret_cast<Graph*>(executable));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<Graph*>(executable);
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** place, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *place = nullptr;
  if (result != nullptr) *result = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"
