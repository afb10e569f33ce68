#pragma once
// The two rules for the batch of a real job, if the owner lets the pool change the batch: linear in the devices (ONES),
// or by goodput (Pollux).
//
// Sizes are samples per EST and step. A job has the same number of ESTs on all devices, so its global batch is in
// proportion to these sizes.

#include <cstdint>

#include "core/base/json/fields.h"
#include "core/planning/scheduling/batch_times.h"

namespace estrain::scheduling {

struct BatchTerms {
  int64_t own = 1;              // the batch at submission
  int64_t least = 1, most = 1;  // allowed by the owner
  bool square_root = false;     // the optimizer is not SGD
  bool operator==(const BatchTerms&) const = default;
  ESTRAIN_FIELDS(own, least, most, square_root)
};

// The linear rule (ONES, SC'21): each device keeps the number of samples of the owner's devices and batch
// (section 2.2); the limit is the owner's batch at first, and doubles after each epoch (section 3.3.2, "scale-up");
// learning rates are scaled linearly with the batch (section 3.3.1).
//
// Adam and its like divide an update by the size of the gradients: their learning rates are multiplied by the square
// root of SGD's factor (Malladi et al., 2022, for Adam and RMSprop; the released code of Pollux).

// Returns the batch on `devices` after so many epochs; the owner asked for `requested`. Within least and most.
int64_t linear_batch(const BatchTerms& terms, int64_t devices, int64_t requested, int64_t epochs);

// Returns the factor on the job's learning rates if SGD's factor would be `of_sgd`.
double lr_factor(const BatchTerms& terms, double of_sgd);
// Returns the factor on the job's learning rates with this batch.
double linear_lr_factor(const BatchTerms& terms, int64_t batch);

// The rule by goodput: the batch with which a job makes the most of its devices (Pollux, OSDI'21, section 3). Goodput
// is samples a second times the worth of a sample. In larger batches a sample takes less time, and is worth less:
//
//   efficiency(B) = (noise + B0) / (noise + B)              equation 6; B0: the owner's batch, over all ESTs
//   factor on SGD's learning rates = efficiency(B) B / B0   AdaScale's gain, section 3.1: from 1 to B / B0
//   factor for Adam and its like = the root of SGD's        lr_factor()
//
// The noise is in samples.

struct GoodputTerms {
  BatchTerms terms;
  int64_t ests = 1;
  double noise_scale = 0;  // samples; > 0
  int64_t in_force = 1;    // the batch at present
};

inline constexpr int64_t kKnown = 5;

double efficiency(const GoodputTerms& terms, int64_t batch);

// Returns at least the owner's batch, as Pollux does, and at most twice the largest measured batch. The batch in force
// stays unless another promises 10 % more, or until it is measured kKnown times. While a single batch has been
// measured, twice this batch is tried if its efficiency is at least 80 %: a larger batch's time is not known otherwise.
int64_t goodput_batch(const GoodputTerms& terms, const BatchTimes& times);

// Returns the factor on the learning rates with this batch.
double goodput_lr_factor(const GoodputTerms& terms, int64_t batch);

}  // namespace estrain::scheduling
