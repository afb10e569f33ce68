#pragma once
// Fills mini-batches by reader threads, in the order of a plan and ahead of need. Used by the training loader and the
// evaluation.
//
// Readers take samples strictly in the plan's order and divide each mini-batch among themselves. The first batch is
// thus ready as soon as possible, and an idle reader continues with the next batch. Readers take a lock per claim, not
// per sample.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "core/data/formats/dataset.h"
#include "core/data/reading/reader_tuning.h"
#include "core/data/sampling/augmentation.h"
#include "core/data/sampling/batch.h"

namespace estrain::data {

// A BatchPlan lists the mini-batches to read, in order, with the samples.
class BatchPlan {
 public:
  virtual ~BatchPlan() = default;
  // The next mini-batch, or nothing at the end. Called by a single thread at a time.
  virtual std::optional<BatchRequest> following() = 0;
  // The samples of a mini-batch from `first` on, as many as fit into `out`. Thread-safe.
  virtual void indices(const BatchRequest& request, int64_t first, std::span<int64_t> out) const = 0;
  // `place`: of the sample in the mini-batch. Thread-safe.
  virtual SampleDraw draw(const BatchRequest& request, int64_t index, int64_t place) const = 0;
};

// A ClaimQueue has the mini-batches in progress: readers claim samples, and one consumer takes the mini-batches in the
// plan's order. Thread-safe.
class ClaimQueue {
 public:
  struct Slot {  // a mini-batch in progress
    BatchRequest request;
    BatchPool::Lease buffer;
    int64_t claimed = 0;   // samples taken by readers
    int64_t filled = 0;    // samples read; counted only in mini-batches to be mixed, by completes()
    int64_t finished = 0;  // samples read, or abandoned after a failure
    std::exception_ptr failure;
  };
  struct Claim {  // samples [first, first + count) of a slot
    Slot* slot;
    int64_t first, count;
  };

  // `prefetch`: the most mini-batches being read, or ready but not yet taken. `plan` must outlive the queue.
  ClaimQueue(BatchPlan& plan, std::shared_ptr<BatchPool> pool, int64_t prefetch)
      : plan_(plan), pool_(std::move(pool)), prefetch_(prefetch) {}

  // For readers, numbered from 0.
  // Waits for samples to read. Returns nothing if the reader must end.
  std::optional<Claim> claim(int64_t reader);
  // Notes that the samples of a claim have been read. Returns whether the mini-batch now has all of its samples.
  bool completes(const Claim& claimed);
  // Ends a claim: the samples are read, or abandoned after `failure`.
  void finish(const Claim& claimed, const std::exception_ptr& failure);
  // Whether readers should abandon claimed samples.
  bool is_stopped() const { return stop_.load(std::memory_order_relaxed); }

  // For the consumer.
  // The plan's next mini-batch, as soon as all samples are read; nothing after the last mini-batch. Rethrows a reader's
  // exception in place of the mini-batch, and at every later call.
  std::optional<Slot> take();
  // Whether take() would return a mini-batch without waiting.
  bool is_ready();

  // Sets the number of readers that divide a mini-batch, and ends readers with the number `wanted` or higher.
  void want_readers(int64_t wanted);
  void wake_readers() { room_.notify_all(); }
  int64_t prefetch() const { return prefetch_; }
  void read_ahead(int64_t prefetch);  // from now on
  void stop();                        // ends all readers; not while the consumer waits in take()

 private:
  bool has_unclaimed() const;
  bool may_open() const;
  void open_slot(std::unique_lock<std::mutex>& lock);

  BatchPlan& plan_;
  const std::shared_ptr<BatchPool> pool_;

  std::mutex mutex_;  // guards the members below and the slots' counters
  std::condition_variable room_, ready_;
  std::deque<Slot> slots_;  // front: the next to return; only the back slot has unclaimed samples
  bool opening_ = false;    // a reader is allocating memory for a slot
  bool exhausted_ = false;  // no mini-batch will follow: the plan has ended, or something failed
  std::atomic<bool> stop_ = false;
  std::exception_ptr plan_failure_;  // the reason for exhausted_, if the plan or an allocation failed
  std::exception_ptr failure_;       // already thrown by take()
  int64_t wanted_ = 0;               // number of readers
  int64_t prefetch_;                 // written by the consumer only
};

class ReadAhead {
 public:
  struct Options {
    int64_t readers = 1;           // threads, at least 1; fewer if the system refuses more
    int64_t prefetch = 4;          // mini-batches being read, or ready but not yet taken; at least 1
    int64_t batch = 1;             // samples of the largest mini-batch
    int64_t most_readers = 1;      // if larger than `readers`: tune the number up to this (reader_tuning.h)
    int64_t most_prefetch = 1;     // if larger than `prefetch`: tune the read-ahead up to this
    HostMemory memory = {};        // memory for mini-batches; empty: ordinary memory
    bool pads_to_longest = false;  // ragged arrays: every mini-batch to the longest sample of the data set
  };

  // Starts reading. `dataset` must outlive the object (Batches may outlive both). Throws Fault::io if no thread can be
  // started.
  ReadAhead(const Dataset& dataset, std::unique_ptr<BatchPlan> plan, const Options& options);
  // Waits until each reader has finished the current sample.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The plan's next mini-batch, as soon as all samples are read; nothing after the last mini-batch. Rethrows a reader's
  // exception in place of the mini-batch, and at every later call. For one consumer thread.
  std::optional<LoadedBatch> next();
  // Whether next() would return a mini-batch without waiting.
  bool is_ready() { return queue_.is_ready(); }

  // The current number of threads. For the consumer thread.
  int64_t readers() const { return static_cast<int64_t>(readers_.size()); }
  int64_t prefetch() const { return queue_.prefetch(); }  // the current value; for the consumer thread

 private:
  void start_readers(int64_t wanted);
  void read_claims(int64_t number);
  void tune(int64_t asked_ns, int64_t got_ns);
  void fill(const ClaimQueue::Claim& claimed) const;
  void mix(const ClaimQueue::Claim& claimed);

  const Dataset& dataset_;
  const SampleShape shape_;
  const std::unique_ptr<BatchPlan> plan_;
  ClaimQueue queue_;
  std::vector<std::thread> readers_;
  std::optional<ReaderTuning> tuning_;
  int64_t last_asked_ns_ = 0;  // when next() was called before
};

}  // namespace estrain::data
