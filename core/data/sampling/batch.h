#pragma once
// A LoadedBatch is a mini-batch in memory, ready to be wrapped as tensors without a copy.
//
// The buffers come from a pool and return to the pool when the LoadedBatch is destroyed (in any thread, even after the
// loader's end): only the first few batches touch new memory. Inputs and targets start at multiples of 64 bytes:
// alignment is part of the bits.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/base/process/host_memory.h"
#include "core/data/sampling/mixing.h"
#include "core/data/sampling/sample_shape.h"
#include "core/data/sampling/sampler.h"

namespace estrain::data {

// The description of a mini-batch.
struct BatchRequest {
  VirtualRank rank;          // training: the EST
  Cursor cursor;             // training: the batch's start in the epoch
  int64_t number = 0;        // training: counted from the loader's start; evaluation: samples [number * batch, …)
  int64_t size = 0;          // samples
  std::optional<Mix> mix{};  // of the images and labels
  std::vector<int64_t> lengths{};  // of each array, where some are ragged (SampleShape::with_lengths)
};

class BatchBuffer {
 public:
  // Allocates with `memory`; if that fails, ordinary memory.
  BatchBuffer(const SampleShape& shape, int64_t capacity, const HostMemory& memory);

  std::byte* input() { return memory_.get(); }
  // The region of the shape's i-th array for all samples, at a multiple of 64 bytes.
  std::byte* field(size_t i) { return memory_.get() + fields_at_[i]; }
  int64_t* targets() { return reinterpret_cast<int64_t*>(memory_.get() + targets_at_); }
  int64_t* indices() { return reinterpret_cast<int64_t*>(memory_.get() + indices_at_); }

 private:
  size_t targets_at_, indices_at_;
  std::vector<size_t> fields_at_;
  std::shared_ptr<std::byte> memory_;
};

// Thread-safe.
class BatchPool : public std::enable_shared_from_this<BatchPool> {
 public:
  struct Return {
    std::shared_ptr<BatchPool> pool;
    void operator()(BatchBuffer* buffer) const;
  };
  using Lease = std::unique_ptr<BatchBuffer, Return>;

  // Batches of up to `capacity` samples. `memory` may be empty: ordinary memory.
  BatchPool(const SampleShape& shape, int64_t capacity, HostMemory memory)
      : shape_(shape), capacity_(capacity), memory_(std::move(memory)) {}

  Lease take();

 private:
  SampleShape shape_;
  int64_t capacity_;
  HostMemory memory_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BatchBuffer>> free_;
};

class LoadedBatch {
 public:
  LoadedBatch(const BatchRequest& request, const SampleShape& shape, BatchPool::Lease buffer)
      : request_(request), shape_(shape.with_lengths(request.lengths)), buffer_(std::move(buffer)) {}

  VirtualRank rank() const { return request_.rank; }
  Cursor cursor() const { return request_.cursor; }
  int64_t number() const { return request_.number; }
  int64_t size() const { return request_.size; }

  // The shape of a sample; ragged arrays have the length of this mini-batch. The input is {size, shape...}: float32
  // through floats(), tokens int64 through tokens().
  const SampleShape& shape() const { return shape_; }
  float* floats() const { return reinterpret_cast<float*>(buffer_->input()); }
  int64_t* tokens() const { return reinterpret_cast<int64_t*>(buffer_->input()); }
  // For several arrays: the i-th of the shape's parts, {size, dims...} of the part's type.
  std::byte* field(size_t i) const { return buffer_->field(i); }
  // {size}, or for tokens {size, length}.
  int64_t* targets() const { return buffer_->targets(); }
  // How the images have been mixed. The labels, targets(), are to be mixed in the same way.
  const std::optional<Mix>& mix() const { return request_.mix; }
  // The index in the data set of each entry.
  std::span<const int64_t> indices() const { return {buffer_->indices(), static_cast<size_t>(request_.size)}; }

 private:
  BatchRequest request_;
  SampleShape shape_;
  BatchPool::Lease buffer_;
};

}  // namespace estrain::data
