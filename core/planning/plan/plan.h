#pragma once
// Assigns ESTs to devices: the plan with the shortest step (EasyScale, section 3.4, equations 1a to 1d, extended by the
// time of the exchange).
//
// All workers wait for the slowest worker to compute; then all exchange and update:
//
//   step = compute(W, L) + exchange(W, P)
//   compute = L_1 + (crowding(W) - 1) / (W - 1) * (L_2 + ... + L_W)
//
// L_d = n_d / C_d, largest first: n_d ESTs on device d, which does C_d mini-batches per second when it computes alone.
// W is the number of workers, P the number of partial sums in the exchange, which depends on the cuts between ranges
// (partial_sums.h). Workers that share memory and cores slow each other down, by the factor crowding(W) if all are
// equally busy. A worker that finishes early leaves more to the others, so each of the W - 1 others adds to the slowest
// one's time in proportion to its own time. Pure: no clock, no files.
//
// The paper gives each of the N_i devices of a type the same number A_i of ESTs, with a total nEST that may exceed the
// job's maxP, and leaves out the exchange:
//
//   nEST       = sum_i N_i A_i, nEST >= maxP                                                              (1a)
//   f_overload = max_{i, N_i > 0} A_i / C_i                                                               (1b)
//   waste      = sum_{i, N_i > 0} N_i (C_i - A_i / f_overload) + (nEST - maxP) / f_overload               (1c)
//   throughput = sum_i N_i C_i - waste = maxP / f_overload                                                (1d)
//
// As printed, (1c) lacks the N_i before the bracket and counts the waste once per type. With N_i, (1d) describes
// synchronous training: maxP useful mini-batches in f_overload seconds. Here a plan has exactly maxP ESTs, in numbers
// that may differ within a type.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace estrain::plan {

// Devices treated as equal by the planner. A device slower than the rest of its kind has its own group.
struct DeviceGroup {
  std::string kind;                                         // "cpu:avx2"
  int64_t count = 0;                                        // available devices
  double mini_batches_per_second = 0;                       // C_i: of a single device, for this job, computing alone
  int64_t most_ests = std::numeric_limits<int64_t>::max();  // ESTs that fit into the memory of a device
  std::string model = {};  // for kinds of one device each ("cuda:0"): equal models are alike; empty: the kind decides

  // Devices of one family give the same bits, and may work together below D2.
  const std::string& family() const { return model.empty() ? kind : model; }
};

// The cost of the end of a step, in seconds. Every coefficient is finite and at least 0.
struct ExchangeCost {
  double base = 0;        // independent of W and P
  double per_worker = 0;  // for each worker beyond the first: barrier and wake-up
  double per_sum = 0;     // for each addition of a partial sum; the workers divide this work
  double update = 0;      // the optimizer's arithmetic, also divided
  // base + per_worker (W - 1) + (per_sum (P - 1) + update) / W
  double seconds(int64_t workers, int64_t partial_sums) const;
};

// The load of a plan on its devices, each as fast as when computing alone.
struct Load {
  double pace = 0;  // seconds of the slowest: L_1, f_overload in equation 1b
  double work = 0;  // sum over all: L_1 + ... + L_W
};

struct PlannedJob {
  int64_t ests = 1;
  bool one_kind = true;  // below D2 all devices of a plan are of one family
  ExchangeCost exchange;
  // crowding[w - 1]: the factor by which a mini-batch takes longer while w workers compute; the last entry holds for
  // all larger w. Empty: 1.
  std::vector<double> crowding;
  double crowding_of(int64_t workers) const;
  double compute_seconds(int64_t workers, Load load) const;
};

// A worker of a plan.
struct WorkerShare {
  int64_t group = 0;  // index of the device group
  int64_t ests = 0;   // at least 1
  bool operator==(const WorkerShare&) const = default;
};

struct Plan {
  std::vector<WorkerShare> workers;  // in worker order: their ranges of ESTs are consecutive
  double compute_seconds = 0;        // f_overload (1b), plus the slow-down by other workers
  double exchange_seconds = 0;
  double step_seconds = 0;
  int64_t partial_sums = 0;
  double waste = 0;       // mini-batches per second (1c), summed over devices with ESTs
  double throughput = 0;  // mini-batches per second of the whole job (1d), including the exchange
  double slack = 0;       // a better plan could save at most this fraction of step_seconds; 0: proven optimal
  std::string reason;     // one sentence: the bottleneck
};

// Computes the times of a given plan; the plan's slack is 0. Throws Fault::infeasible if the plan's ESTs are not the
// job's or do not fit, and for an invalid job or group (a count below 0, a C other than a positive number, fewer than
// one EST, coefficients below 0).
Plan evaluate(const PlannedJob& job, const std::vector<DeviceGroup>& groups, std::vector<WorkerShare> workers);

// Returns the plan with the shortest step and at most `most_workers`; for equal steps the plan with fewer workers, then
// with fewer partial sums. The plan need not use every device, and best_plan chooses the order of the workers. Throws
// Fault::infeasible, with the reason, if no set of devices can host all ESTs; also as evaluate.
//
// The plan is exact (slack 0) if the search stays within its budget of a few million steps, as for all jobs on one
// machine. For larger problems, such as thousands of ESTs on thousands of devices of many kinds, the shortest compute
// time is still exact for each number of workers, a greedy search aligns the cuts, and slack bounds the loss.
Plan best_plan(const PlannedJob& job, const std::vector<DeviceGroup>& groups,
               int64_t most_workers = std::numeric_limits<int64_t>::max());

}  // namespace estrain::plan
