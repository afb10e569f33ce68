#pragma once
// What is known of one kind of device at one piece of work (work.h): EasyScale's C_i (section 3.4), and what the plain
// equation leaves out: workers that crowd each other, and the exchange at the end of a step.
//
// Times of mini-batches are kept for each number of workers that compute at a time, as they were measured, rather than
// as one time and factors: a run with two workers then corrects what it has seen and nothing else. Only where a number
// turns out to be plainly wrong are those beside it scaled along, until they are measured again.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/plan/plan.h"
#include "core/profile/estimate.h"

namespace estrain::profile {

struct MiniBatchSample {
  int64_t workers = 1;  // that compute at a time
  Estimate estimate;    // seconds per mini-batch, a lone worker's share of the update left out
};

struct ExchangeSample {
  int64_t workers = 1, partial_sums = 1;
  Estimate estimate;  // seconds of a step in which not even the slowest worker is in a mini-batch; the update is in it
};

// Bytes, as the probe reports them (core/train/probe.h).
struct Memory {
  int64_t worker = 0;     // of a worker for itself
  int64_t state = 0;      // one copy of the state: shared by all workers
  int64_t gradients = 0;  // one partial sum
  int64_t batch = 0;      // one mini-batch read ahead
};

class Capability {
 public:
  std::vector<MiniBatchSample> mini_batches;  // by number of workers
  std::optional<Estimate> update;             // of a lone worker, within its last mini-batch
  std::vector<ExchangeSample> exchanges;      // by workers, then partial sums
  std::optional<Memory> memory;

  void observe_mini_batch(int64_t workers, const Measurement& measurement, int64_t now);
  // Where nobody has measured with so many workers yet: a time that crowding cannot explain, which is more than
  // kMostCrowding times or less than kLeastCrowding times that with fewer workers (`turns_taken` apart: how much less
  // of the cores each has), says that what is known is wrong. It is scaled to what is measured.
  static constexpr double kMostCrowding = 2, kLeastCrowding = 0.75;
  void mend(int64_t workers, double seconds, double turns_taken);
  // `step_seconds`: of the whole step, of which the exchange is a difference.
  void observe_exchange(int64_t workers, int64_t partial_sums, const Measurement& measurement, double step_seconds,
                        int64_t now);

  bool measured() const { return !mini_batches.empty(); }
  // The time of a mini-batch, alone or with the fewest workers known; null: none.
  const MiniBatchSample* base() const { return mini_batches.empty() ? nullptr : &mini_batches.front(); }
  const Estimate* mini_batch(int64_t workers) const;
};

// The largest number of exchange samples kept; the oldest go first.
inline constexpr size_t most_exchange_samples = 64;

}  // namespace estrain::profile
