#pragma once
// Reader threads that fill mini-batches in the order of a plan, some of them ahead of need. The engine behind the
// training loader and the evaluation.
//
// Readers take samples strictly in the plan's order and share out each mini-batch among them, so the first batch is
// there as soon as it can be, however many follow it, and a reader that is done goes on with the next batch. One lock
// is taken per piece, not per sample.

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

#include "core/data/batch.h"
#include "core/data/dataset.h"
#include "core/data/reader_tuning.h"

namespace estrain::data {

// Which mini-batches are read, in which order, from which samples.
class BatchPlan {
 public:
  virtual ~BatchPlan() = default;
  // The next mini-batch, or nothing at the end. Called by one thread at a time.
  virtual std::optional<BatchRequest> following() = 0;
  // Samples of a mini-batch from its `first` on, as many as `out` holds. Thread-safe.
  virtual void indices(const BatchRequest& request, int64_t first, std::span<int64_t> out) const = 0;
  // Thread-safe.
  virtual SampleDraw draw(const BatchRequest& request, int64_t index) const = 0;
};

class ReadAhead {
 public:
  struct Options {
    int64_t readers = 1;        // threads, at least 1; fewer where the system gives no more
    int64_t prefetch = 4;       // mini-batches being read or ready but not handed out, at least 1
    int64_t batch = 1;          // samples of the largest mini-batch
    int64_t most_readers = 1;   // where that is more than `readers`: as many as it takes (reader_tuning.h)
    int64_t most_prefetch = 1;  // where that is more than `prefetch`: as far ahead as it takes
    HostMemory memory = {};     // where mini-batches lie; empty: ordinary memory
  };

  // Starts reading. `dataset` must outlive the object (Batches may outlive both). Throws Fault::io where not a single
  // thread can be started.
  ReadAhead(const Dataset& dataset, std::unique_ptr<BatchPlan> plan, const Options& options);
  // Ends after the sample that each reader is at.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The plan's next mini-batch, as soon as it is read; nothing after the last one. What a reader threw is thrown here,
  // in the place of its mini-batch and ever after. For one consumer thread.
  std::optional<Batch> next();
  // Whether there is a mini-batch that next() returns without waiting.
  bool is_ready();

  // Threads, now. For the consumer thread.
  int64_t readers() const { return static_cast<int64_t>(readers_.size()); }
  int64_t prefetch() const { return prefetch_; }  // now, likewise

 private:
  struct Slot {  // one mini-batch under way
    BatchRequest request;
    BatchPool::Lease buffer;
    int64_t claimed = 0;   // samples that a reader has taken on
    int64_t finished = 0;  // samples that are read, or given up after a failure
    std::exception_ptr failure;
  };
  struct Piece {  // samples [first, first + count) of a slot
    Slot* slot;
    int64_t first, count;
  };

  void start_readers(int64_t wanted);
  void read_pieces(int64_t number);
  std::optional<Piece> claim(int64_t number);
  void read_ahead(int64_t prefetch);
  void tune(int64_t asked_ns, int64_t got_ns);
  bool has_unclaimed() const;
  bool may_open() const;
  void open_slot(std::unique_lock<std::mutex>& lock);
  void finish(const Piece& piece, const std::exception_ptr& failure);
  void fill(const Piece& piece) const;
  void fill_fields(const Piece& piece) const;

  const Dataset& dataset_;
  const SampleShape shape_;
  const std::unique_ptr<BatchPlan> plan_;
  const Options options_;
  const std::shared_ptr<BatchPool> pool_;

  std::mutex mutex_;  // guards what follows, and slots' counters
  std::condition_variable room_, ready_;
  std::deque<Slot> slots_;  // front: the next to hand out; only the back one has unclaimed samples
  bool opening_ = false;    // a reader gets memory for a slot
  bool exhausted_ = false;  // no mini-batch will follow: the plan is at its end, or something failed
  std::atomic<bool> stop_ = false;
  std::exception_ptr plan_failure_;  // why exhausted_, if the plan itself or its memory failed
  std::exception_ptr failure_;       // already thrown by next()
  int64_t wanted_ = 0;               // readers; those with a higher number end
  int64_t prefetch_;
  std::vector<std::thread> readers_;
  // The consumer's own:
  std::optional<ReaderTuning> tuning_;
  int64_t last_asked_ns_ = 0;
};

}  // namespace estrain::data
