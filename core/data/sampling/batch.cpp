#include "core/data/sampling/batch.h"

#include <new>

#include "core/base/error.h"

namespace estrain::data {
namespace {

constexpr std::align_val_t kBatchAlignment{64};

size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

std::shared_ptr<std::byte> ordinary_memory(size_t bytes) {
  return {static_cast<std::byte*>(::operator new(bytes, kBatchAlignment)),
          [](std::byte* memory) { ::operator delete(memory, kBatchAlignment); }};
}

}  // namespace

BatchBuffer::BatchBuffer(const SampleShape& shape, int64_t capacity, const HostMemory& memory) {
  const size_t samples = static_cast<size_t>(capacity);
  if (size_t bytes; __builtin_mul_overflow(samples, shape.bytes() + 64 * (1 + shape.parts.size()), &bytes)) {
    throw Error::make(Fault::infeasible, "a mini-batch of {} samples of {} bytes is too large to be addressed",
                      capacity, shape.bytes())
        .advise("lower data.batch or train.eval_batch");
  }
  size_t fields_end = 0;
  for (const SampleShape::Field& part : shape.parts) {
    fields_at_.push_back(fields_end);
    fields_end += round_up(samples * part.bytes());
  }
  targets_at_ = shape.parts.empty() ? round_up(samples * shape.input_bytes()) : fields_end;
  indices_at_ = targets_at_ + round_up(samples * static_cast<size_t>(shape.targets()) * sizeof(int64_t));
  const size_t bytes = indices_at_ + round_up(samples * sizeof(int64_t));
  if (memory) memory_ = memory(bytes);
  if (!memory_) memory_ = ordinary_memory(bytes);
}

BatchPool::Lease BatchPool::take() {
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      Lease lease(free_.back().release(), Return{shared_from_this()});
      free_.pop_back();
      return lease;
    }
  }
  return Lease(new BatchBuffer(shape_, capacity_, memory_), Return{shared_from_this()});
}

void BatchPool::Return::operator()(BatchBuffer* buffer) const {
  std::unique_ptr<BatchBuffer> owned(buffer);
  std::lock_guard lock(pool->mutex_);
  pool->free_.push_back(std::move(owned));
}

}  // namespace estrain::data
