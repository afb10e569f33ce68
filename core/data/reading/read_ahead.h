#pragma once
// Reader threads that fill mini-batches in the order of a plan and ahead of need. Used by the training loader and the
// evaluation.
//
// Readers take samples strictly in the plan's order and divide each mini-batch among themselves. So the first batch is
// ready as soon as possible, and a reader that is done continues with the next batch. Readers take one lock per claim,
// not per sample.

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/data/formats/dataset.h"
#include "core/data/reading/claim_queue.h"
#include "core/data/reading/reader_tuning.h"
#include "core/data/sampling/batch.h"

namespace estrain::data {

class ReadAhead {
 public:
  struct Options {
    int64_t readers = 1;        // threads, at least 1; fewer if the system refuses more
    int64_t prefetch = 4;       // mini-batches being read, or ready but not yet taken; at least 1
    int64_t batch = 1;          // samples of the largest mini-batch
    int64_t most_readers = 1;   // if larger than `readers`: tune the number up to this (reader_tuning.h)
    int64_t most_prefetch = 1;  // if larger than `prefetch`: tune the read-ahead up to this
    HostMemory memory = {};     // memory for mini-batches; empty: ordinary memory
  };

  // Starts reading. `dataset` must outlive the object (Batches may outlive both). Throws Fault::io if not even one
  // thread can be started.
  ReadAhead(const Dataset& dataset, std::unique_ptr<BatchPlan> plan, const Options& options);
  // Waits until each reader has finished its current sample.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The plan's next mini-batch, as soon as it is read; nothing after the last one. Rethrows a reader's exception in
  // place of its mini-batch, and at every later call. For one consumer thread.
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
  void fill_fields(const ClaimQueue::Claim& claimed) const;

  const Dataset& dataset_;
  const SampleShape shape_;
  const std::unique_ptr<BatchPlan> plan_;
  ClaimQueue queue_;
  std::vector<std::thread> readers_;
  std::optional<ReaderTuning> tuning_;
  int64_t last_asked_ns_ = 0;  // when next() was called before
};

}  // namespace estrain::data
