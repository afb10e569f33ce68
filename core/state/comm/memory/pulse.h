#pragma once
// The signs of life of a worker, for the launcher to supervise.
//
// The worker writes, the launcher reads. Signs of life order no other accesses: all accesses are relaxed.

#include <atomic>
#include <cstdint>

namespace estrain::comm {

// A worker's last known activity. Waiting workers are victims of the worker that computes for too long.
enum class Activity : uint32_t {
  idle,                // not in a stage, or setting up a stage
  computing,           // a mini-batch, an update
  evaluating,          // a batch of an evaluation
  reading,             // waits for data to be read
  meeting,             // waits for the other workers
  waiting_for_scribe,  // waits until a copy of the state or the record ring is free
};

// The signs of life of a worker. All times are monotonic nanoseconds.
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

}  // namespace estrain::comm
