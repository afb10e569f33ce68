#pragma once
// Owns a descriptor of cuDNN's backend. Private to this folder.

#include <cudnn.h>

#include <cstdint>
#include <vector>

namespace estrain::kernels::pinned {

void require_cudnn(cudnnStatus_t status, const char* what);  // throws Failure

class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  template <typename Value>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value& value) {
    set(name, type, 1, &value);
    return *this;
  }
  template <typename Value>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       const std::vector<Value>& values) {
    set(name, type, static_cast<int64_t>(values.size()), values.data());
    return *this;
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
  }

  // Returns whether cuDNN accepts the attributes: an engine or a plan may not fit this graph or device.
  [[nodiscard]] bool finalizes();
  CudnnDescriptor&& finalized(const char* what) &&;  // throws Failure

  template <typename Value>
  Value value(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    Value value{};
    get(name, type, 1, &value);
    return value;
  }
  // Returns at most `most` values.
  template <typename Value>
  std::vector<Value> values(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most) const {
    std::vector<Value> values(static_cast<size_t>(most));
    values.resize(static_cast<size_t>(get(name, type, most, values.data())));
    return values;
  }
  // Fills existing descriptors; returns the number of filled descriptors.
  int64_t fill(cudnnBackendAttributeName_t name, std::vector<CudnnDescriptor>& into) const;

 private:
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most, void* values) const;

  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace estrain::kernels::pinned
