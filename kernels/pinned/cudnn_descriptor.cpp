#include "kernels/pinned/cudnn_descriptor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/pinned/failure.h"

namespace estrain::kernels::pinned {

void require_cudnn(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) throw Failure(std::string("cuDNN: ") + what + ": " + cudnnGetErrorString(status));
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  require_cudnn(cudnnBackendCreateDescriptor(type, &descriptor_), "a descriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) (void)cudnnBackendDestroyDescriptor(descriptor_);
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)) {}

bool CudnnDescriptor::finalizes() { return cudnnBackendFinalize(descriptor_) == CUDNN_STATUS_SUCCESS; }

CudnnDescriptor&& CudnnDescriptor::finalized(const char* what) && {
  require_cudnn(cudnnBackendFinalize(descriptor_), what);
  return std::move(*this);
}

int64_t CudnnDescriptor::fill(cudnnBackendAttributeName_t name, std::vector<CudnnDescriptor>& into) const {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const CudnnDescriptor& descriptor : into) raw.push_back(descriptor.get());
  return get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()), raw.data());
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                          const void* values) {
  require_cudnn(cudnnBackendSetAttribute(descriptor_, name, type, count, values), "an attribute");
}

int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
                             void* values) const {
  int64_t count = 0;
  require_cudnn(cudnnBackendGetAttribute(descriptor_, name, type, most, &count, values), "what an attribute is");
  return std::min(count, most);
}

}  // namespace estrain::kernels::pinned
