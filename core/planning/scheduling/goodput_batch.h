#pragma once
// The batch with which a real job makes the most of its devices (Pollux, OSDI'21, section 3): goodput is samples a
// second times the worth of a sample. In larger batches a sample takes less time, and is worth less:
//
//   efficiency(B) = (noise + B0) / (noise + B)              equation 6; B0: the owner's batch, over all ESTs
//   factor on SGD's learning rates = efficiency(B) B / B0   AdaScale's gain, section 3.1: from 1 to B / B0
//   factor for Adam and its like = the root of SGD's        linear_batch.h
//
// The noise is in samples.
//
// Sizes are samples per EST and step.

#include <cstdint>

#include "core/planning/scheduling/batch_times.h"
#include "core/planning/scheduling/linear_batch.h"

namespace estrain::scheduling {

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
