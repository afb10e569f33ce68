#pragma once
// Which ESTs on which devices: the plan with the shortest step (EasyScale, section 3.4, equations 1a to 1d, extended by
// the time of the exchange).
//
// A step takes as long as its slowest worker computes, then all workers exchange and update:
//
//   step = compute(W, L) + exchange(W, P)
//   compute = L_1 + (crowding(W) - 1) / (W - 1) * (L_2 + ... + L_W)
//
// L_d = n_d / C_d, largest first: n_d ESTs on device d, which does C_d mini-batches per second when nobody else
// computes; W workers; P partial sums that they bring to the exchange, which depends on where the ranges are cut
// (partial_sums.h). Workers that share memory and cores slow each other down: all busy alike, by crowding(W). One that
// is done early leaves the others more, so each adds to the slowest one's time in proportion to its own, the W - 1 of
// them alike. Pure: no clock, no files.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace estrain::plan {

// Devices that are alike to the planner. A device that is slower than others of its kind stands in a group of its own.
struct DeviceGroup {
  std::string kind;                    // "cpu:avx2"
  int64_t count = 0;                   // devices at hand
  double mini_batches_per_second = 0;  // C_i: of one device, for this job, when nobody else computes
  int64_t most_ests = std::numeric_limits<int64_t>::max();  // that fit into one device's memory
  std::string model = {};  // of kinds that are one device each ("cuda:0"): what makes them alike; empty: the kind does

  // Those of one family give the same bits, and may work together below D2.
  const std::string& family() const { return model.empty() ? kind : model; }
};

// What the end of a step costs, seconds. Every coefficient is finite and at least 0.
struct Exchange {
  double base = 0;        // whatever W and P are
  double per_worker = 0;  // for each worker beyond the first: meeting, waking
  double per_sum = 0;     // for each partial sum to be added to another; the work is shared out over the workers
  double update = 0;      // the optimizer's arithmetic, shared out as well
  // base + per_worker (W - 1) + (per_sum (P - 1) + update) / W
  double seconds(int64_t workers, int64_t partial_sums) const;
};

// What a plan asks of its devices, each as fast as when nobody else computes.
struct Load {
  double pace = 0;  // seconds of the slowest: L_1, the f_overload of equation 1b
  double work = 0;  // of all together: L_1 + ... + L_W
};

struct Job {
  int64_t ests = 1;
  bool one_kind = true;  // below D2 all devices of a plan are of one family
  Exchange exchange;
  // crowding[w - 1]: how many times as long a mini-batch takes where w workers compute at a time; the last entry goes
  // for all beyond. Empty: 1.
  std::vector<double> crowding;
  double crowding_of(int64_t workers) const;
  double compute_seconds(int64_t workers, Load load) const;
};

// One worker of a plan.
struct Share {
  int64_t group = 0;  // index of the device group
  int64_t ests = 0;   // at least 1
  bool operator==(const Share&) const = default;
};

struct Plan {
  std::vector<Share> workers;  // in worker order: the ranges of ESTs follow one another
  double compute_seconds = 0;  // f_overload (1b), and what the others add to it
  double exchange_seconds = 0;
  double step_seconds = 0;
  int64_t partial_sums = 0;
  double waste = 0;       // mini-batches per second (1c), counted for each device that has ESTs
  double throughput = 0;  // mini-batches per second of the whole job (1d), the exchange included
  double slack = 0;       // at most this share of step_seconds could a better plan save; 0: proven to be the best
  std::string reason;     // one sentence: what limits it
};

// The times of a plan that is given; its slack is 0. Throws Fault::infeasible if its ESTs are not the job's, or do not
// fit, and for groups or a job that make no sense (a count below 0, a C that is not a positive number, fewer than one
// EST, coefficients below 0).
Plan evaluate(const Job& job, const std::vector<DeviceGroup>& groups, std::vector<Share> workers);

// The plan with the shortest step and at most `most_workers`; among equals the one with fewer workers, then with fewer
// partial sums. Not every device has to be used, and the order of the workers is the planner's to choose. Throws
// Fault::infeasible where no set of devices takes all ESTs, saying why, and as evaluate.
//
// It is exact as long as the search stays within its budget of a few million steps (slack 0): so for all jobs on a
// machine. Beyond, say thousands of ESTs on thousands of devices of many kinds, the shortest computing is still exact
// for each number of workers, cuts are aligned as well as a greedy search can, and slack says what that may cost.
Plan best_plan(const Job& job, const std::vector<DeviceGroup>& groups,
               int64_t most_workers = std::numeric_limits<int64_t>::max());

}  // namespace estrain::plan
