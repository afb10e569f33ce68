#pragma once
// EasyScale's performance model as published (section 3.4, equations 1a to 1d): a configuration gives every device of a
// type the same number of ESTs, and their total may exceed the job's maxP.
//
//   nEST       = sum_i N_i A_i, nEST >= maxP                                                              (1a)
//   f_overload = max_{i, N_i > 0} A_i / C_i                                                               (1b)
//   waste      = sum_{i, N_i > 0} N_i (C_i - A_i / f_overload) + (nEST - maxP) / f_overload               (1c)
//   throughput = sum_i N_i C_i - waste                                                                    (1d)
//
// In (1c) the paper has no N_i before the bracket, so it counts waste once per type. Here it is counted per device: in
// f_overload seconds a device of type i computes A_i mini-batches, which is A_i / f_overload per second out of a
// possible C_i, and each of the N_i devices wastes the rest. Only then does (1d) equal synchronous training, maxP
// useful mini-batches in f_overload seconds:
//
//   throughput = sum_i N_i A_i / f_overload - (nEST - maxP) / f_overload = maxP / f_overload.
//
// Counted once per type, throughput would be larger by sum_i (N_i - 1) (C_i - A_i / f_overload): more than maxP
// mini-batches in the time of one step as soon as a type other than the slowest has two devices.
//
// plan.h extends this model: uneven numbers within a type, exactly maxP ESTs, and the time of the exchange.

#include <cstdint>
#include <vector>

namespace estrain::plan {

struct TypeConfiguration {
  int64_t devices = 0;                 // N_i
  double mini_batches_per_second = 0;  // C_i, of one device
  int64_t ests_each = 0;               // A_i
};

struct Estimate {
  int64_t ests = 0;       // nEST
  double f_overload = 0;  // seconds
  double waste = 0;       // mini-batches per second
  double throughput = 0;  // mini-batches per second
};

// Throws Fault::infeasible if nEST < maxP, maxP < 1, a number of devices or ESTs is below 0, or a C_i in use is not a
// positive finite number.
Estimate estimate(const std::vector<TypeConfiguration>& types, int64_t max_parallelism);

}  // namespace estrain::plan
