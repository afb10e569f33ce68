#pragma once
// The mini-batches that are being read: readers claim samples of them, and one consumer takes them in the plan's order.
// Thread-safe.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "core/data/sampling/augmentation.h"
#include "core/data/sampling/batch.h"

namespace estrain::data {

// The mini-batches to read, their order and their samples.
class BatchPlan {
 public:
  virtual ~BatchPlan() = default;
  // The next mini-batch, or nothing at the end. Called by one thread at a time.
  virtual std::optional<BatchRequest> following() = 0;
  // The samples of a mini-batch from `first` on, as many as fit into `out`. Thread-safe.
  virtual void indices(const BatchRequest& request, int64_t first, std::span<int64_t> out) const = 0;
  // Thread-safe.
  virtual SampleDraw draw(const BatchRequest& request, int64_t index) const = 0;
};

class ClaimQueue {
 public:
  struct Slot {  // one mini-batch in progress
    BatchRequest request;
    BatchPool::Lease buffer;
    int64_t claimed = 0;   // samples taken by readers
    int64_t finished = 0;  // samples that are read, or abandoned after a failure
    std::exception_ptr failure;
  };
  struct Claim {  // samples [first, first + count) of a slot
    Slot* slot;
    int64_t first, count;
  };

  // `prefetch`: mini-batches being read, or ready but not yet taken. `plan` must outlive the queue.
  ClaimQueue(BatchPlan& plan, std::shared_ptr<BatchPool> pool, int64_t prefetch)
      : plan_(plan), pool_(std::move(pool)), prefetch_(prefetch) {}

  // For readers, which are numbered from 0.
  // Waits for samples to read. Returns nothing for a reader that must end.
  std::optional<Claim> claim(int64_t reader);
  // Ends a claim, whose samples are read, or abandoned after `failure`.
  void finish(const Claim& claimed, const std::exception_ptr& failure);
  // Whether readers should leave what they have claimed.
  bool is_stopped() const { return stop_.load(std::memory_order_relaxed); }

  // For the consumer.
  // The plan's next mini-batch, as soon as it is read; nothing after the last one. Rethrows a reader's exception in
  // place of its mini-batch, and at every later call.
  std::optional<Slot> take();
  // Whether take() would return a mini-batch without waiting.
  bool is_ready();

  // Readers whose number is `wanted` or higher end.
  void want_readers(int64_t wanted);
  void wake_readers() { room_.notify_all(); }
  int64_t prefetch() const { return prefetch_; }
  void read_ahead(int64_t prefetch);
  void stop();

 private:
  bool has_unclaimed() const;
  bool may_open() const;
  void open_slot(std::unique_lock<std::mutex>& lock);

  BatchPlan& plan_;
  const std::shared_ptr<BatchPool> pool_;

  std::mutex mutex_;  // guards the members below and the slots' counters
  std::condition_variable room_, ready_;
  std::deque<Slot> slots_;  // front: the next to return; only the back one has unclaimed samples
  bool opening_ = false;    // a reader is allocating memory for a slot
  bool exhausted_ = false;  // no mini-batch will follow: the plan has ended, or something failed
  std::atomic<bool> stop_ = false;
  std::exception_ptr plan_failure_;  // the reason for exhausted_, if the plan or an allocation failed
  std::exception_ptr failure_;       // already thrown by take()
  int64_t wanted_ = 0;               // number of readers
  int64_t prefetch_;                 // written by the consumer only
};

}  // namespace estrain::data
