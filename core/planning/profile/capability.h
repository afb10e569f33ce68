#pragma once
// The measured speed of a kind of device at a kind of work (work.h): EasyScale's C_i (section 3.4), extended by the
// slow-down among workers and by the exchange at the end of a step.
//
// Mini-batch times are kept as measured, for each number of workers computing at a time, instead of as a time with
// factors. A run with two workers therefore corrects only the entry for two. Only if an entry is plainly wrong are its
// neighbours scaled along, until they are measured again.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/planning/plan/plan.h"

namespace estrain::profile {

struct Measurement {
  double seconds = 0;
  double spread = 0;  // interquartile range of the single values over their median; 0: unknown
};

// An Estimate is a repeatedly measured number: a running average that forgets.
//
// The n-th measurement has the weight 1/n, but at least 1/kMemory: old values fade away. A measurement off by
// more than kMargin is not noise but a change (another load on the machine, a wrong profile), and replaces the
// average at once. The first measurement after kStale without a measurement replaces the average, too.
// EasyScale's companion module (section 3.4) likewise updates its database "once it has monitored significant
// biases".
struct Estimate {
  static constexpr int64_t kMemory = 8;              // measurements
  static constexpr double kMargin = 0.25;            // of the estimate
  static constexpr int64_t kStale = 30 * 24 * 3600;  // seconds

  double seconds = 0;
  double spread = 0;     // of the measurements, relative; 0: unknown
  int64_t samples = 0;   // measurements in the estimate. 0: never measured, only scaled along with a replaced estimate
  int64_t measured = 0;  // time of the last measurement; seconds since 1970

  // Adds a measurement made at `now`. `floor` (seconds): a deviation below kMargin times `floor` counts as noise,
  // however small the estimate is; for differences of large numbers. Returns true if a measured estimate was off and
  // has been replaced.
  bool observe(const Measurement& measurement, int64_t now, double floor = 0);
  void scale(double factor);  // multiplies the estimate: its subject proved to be slower by this factor

  // Returns the seconds since the last measurement. A time in the future (the clock was set back) counts as now.
  int64_t age(int64_t now) const { return now > measured ? now - measured : 0; }
};

struct MiniBatchSample {
  int64_t workers = 1;  // computing at the same time
  Estimate estimate;    // seconds per mini-batch, without a single worker's share of the update
};

struct ExchangeSample {
  int64_t workers = 1, partial_sums = 1;
  Estimate estimate;  // seconds of a step without the slowest worker's mini-batches; includes the update
};

// Bytes, as the probe reports them (core/engine/train/probe.h).
struct Memory {
  int64_t worker = 0;     // private memory of a worker
  int64_t state = 0;      // a copy of the state, shared by all workers
  int64_t gradients = 0;  // a partial sum
  int64_t batch = 0;      // a mini-batch read ahead
};

class Capability {
 public:
  std::vector<MiniBatchSample> mini_batches;  // by number of workers
  std::optional<Estimate> update;             // of a single worker, within its last mini-batch
  std::vector<ExchangeSample> exchanges;      // by workers, then partial sums
  std::optional<Memory> memory;
  std::optional<Estimate> change;  // seconds that a change of devices kept a job from training, in all

  void observe_mini_batch(int64_t workers, const Measurement& measurement, int64_t now);
  // Call before the first measurement with this number of workers, `seconds` per mini-batch, is added. Crowding
  // explains a time between kLeastCrowding and kMostCrowding times base(), once divided by `turns_taken`, the factor by
  // which each worker has less of the cores. Outside of this range the old mini-batch times and the update are wrong,
  // and are scaled to the new measurement. No effect for a measured number of workers, or one below base()'s.
  static constexpr double kMostCrowding = 2, kLeastCrowding = 0.75;
  void mend(int64_t workers, double seconds, double turns_taken);
  // `step_seconds`: the whole step; the exchange is computed as a difference from it.
  void observe_exchange(int64_t workers, int64_t partial_sums, const Measurement& measurement, double step_seconds,
                        int64_t now);

  bool measured() const { return !mini_batches.empty(); }
  // The mini-batch time of a single worker or of the fewest workers known; null: no time.
  const MiniBatchSample* base() const { return mini_batches.empty() ? nullptr : &mini_batches.front(); }
  const Estimate* mini_batch(int64_t workers) const;
};

// The number of exchange samples kept; the oldest are dropped first.
inline constexpr size_t most_exchange_samples = 64;

}  // namespace estrain::profile
