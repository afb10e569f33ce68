#pragma once
// The signs of life of a job's processes, for the launcher to supervise.

#include <atomic>
#include <cstdint>

#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

// A worker's last known activity. Waiting workers are victims of the worker that computes for too long.
enum class Activity : uint32_t {
  idle,                // not in a stage, or setting up a stage
  computing,           // a mini-batch, an update
  evaluating,          // a batch of an evaluation
  reading,             // waits for data to be read
  meeting,             // waits for the other workers
  waiting_for_scribe,  // waits until a copy of the state or the record ring is free
  waiting_for_room,    // waits until the disk has room for the outputs of an evaluation
};

// The signs of life of a worker. The worker writes, the launcher reads. Signs of life order no other accesses: all
// accesses are relaxed. All times are monotonic nanoseconds.
struct alignas(64) WorkerPulse {
  std::atomic<int64_t> beat_ns;       // when the worker last began or finished something
  std::atomic<Activity> activity;     // since then
  std::atomic<int64_t> computing_ns;  // this stage's time in mini-batches, without waiting for other workers
  std::atomic<int64_t> mini_batches;  // of this stage
  std::atomic<int64_t> reading_ns;    // the part of computing_ns spent on waiting for data

  // Sums over the steps of this stage, if the noise of gradients is measured (engine/train/shared/gradient_store.h):
  // the squared norms of the gradients of the worker's ESTs, and of the parts of the mean over all ESTs updated by this
  // worker.
  std::atomic<int64_t> measured_steps;
  std::atomic<double> est_squares, mean_squares;

  void beat(Activity now, int64_t ns) {
    beat_ns.store(ns, std::memory_order_relaxed);
    activity.store(now, std::memory_order_relaxed);
  }
  // What a device has finished for the worker is a sign of life, too; the worker's activity may be another one by then.
  void beat(int64_t ns) { beat_ns.store(ns, std::memory_order_relaxed); }
  void computed(int64_t ns) { computing_ns.fetch_add(ns, std::memory_order_relaxed); }
  void waited_for_data(int64_t ns) { reading_ns.fetch_add(ns, std::memory_order_relaxed); }
  void measured(double of_ests, double of_mean) {
    est_squares.fetch_add(of_ests, std::memory_order_relaxed);
    mean_squares.fetch_add(of_mean, std::memory_order_relaxed);
    measured_steps.fetch_add(1, std::memory_order_relaxed);
  }
  // The stage begins.
  void begin(int64_t ns) {
    beat(Activity::idle, ns);
    computing_ns.store(0);
    mini_batches.store(0);
    reading_ns.store(0);
    measured_steps.store(0);
    est_squares.store(0);
    mean_squares.store(0);
  }
  void count_mini_batch() { mini_batches.fetch_add(1, std::memory_order_relaxed); }
};

// The time of the job's last progress, and the longest times of its work on the devices in use, for judging silence.
// All times are monotonic nanoseconds. Workers write, the launcher judges; nothing of the state depends on these times.
// All accesses are sequentially consistent.
class WorkClock {
 public:
  explicit WorkClock(MemoryHeader& words) : words_(words) {}

  // A commit, an evaluation, a trace, the opening of a stage, the end of a wait for the scribe; or everybody stood
  // still until now.
  void note_progress(int64_t now_ns) { words_.progress_ns.store(now_ns); }
  // Notes a computed step: the step's time counts from the last progress on.
  void note_step(int64_t now_ns);
  // Notes a batch of an evaluation. A time in which all workers stood still does not count.
  void note_evaluation_batch(int64_t begun_ns, int64_t now_ns);

  // Since the devices changed; 0: none yet.
  struct Longest {
    int64_t step_ns = 0;
    int64_t evaluation_batch_ns = 0;
  };
  Longest longest() const { return {words_.longest_step_ns.load(), words_.longest_evaluation_ns.load()}; }
  void set_longest(const Longest& longest);

  // When the scribe last looked around; 0: not yet.
  int64_t scribe_beat_ns() const { return words_.scribe_beat_ns.load(); }
  void beat_scribe(int64_t now_ns) { words_.scribe_beat_ns.store(now_ns); }

 private:
  MemoryHeader& words_;
};

}  // namespace estrain::comm
