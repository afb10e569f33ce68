#pragma once
// The batch of a real job that grows and shrinks with its devices (ONES, SC'21): each device keeps the number of
// samples of the owner's devices and batch (section 2.2); the limit is the owner's batch at first, and doubles after
// each epoch (section 3.3.2, "scale-up"); learning rates are scaled linearly with the batch
// (section 3.3.1).
//
// Sizes are samples per EST and step. A job has the same number of ESTs on all devices, so its global batch is in
// proportion to these sizes.
//
// Adam and its like divide an update by the size of the gradients: their learning rates are multiplied by the square
// root of SGD's factor (Malladi et al., 2022, for Adam and RMSprop; the released code of Pollux).

#include <cstdint>

#include "core/base/json/fields.h"

namespace estrain::scheduling {

struct BatchTerms {
  int64_t own = 1;              // the batch at submission
  int64_t least = 1, most = 1;  // allowed by the owner
  bool square_root = false;     // the optimizer is not SGD
  bool operator==(const BatchTerms&) const = default;
  ESTRAIN_FIELDS(own, least, most, square_root)
};

// Returns the batch on `devices` after so many epochs; the owner asked for `requested`. Within least and most.
int64_t linear_batch(const BatchTerms& terms, int64_t devices, int64_t requested, int64_t epochs);

// Returns the factor on the job's learning rates if SGD's factor would be `of_sgd`.
double lr_factor(const BatchTerms& terms, double of_sgd);
// Returns the factor on the job's learning rates with this batch.
double linear_lr_factor(const BatchTerms& terms, int64_t batch);

}  // namespace estrain::scheduling
