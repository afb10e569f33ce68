#pragma once
// Finds the first step with different records.

#include <optional>

#include "core/inspect/verify/comparison.h"

namespace estrain::verify {

// Returns the steps with losses, or digests, on both sides.
CommonSteps common_steps(const record::Metrics& a, const record::Metrics& b);
CommonSteps common_steps(const record::FingerprintReader& a, const record::FingerprintReader& b);

// Returns the first step at which an EST's loss differs in any bit, with all differing losses of the step. A different
// mean with equal losses of ESTs also counts, without a LossDifference.
std::optional<Difference> first_loss_difference(const record::Metrics& a, const record::Metrics& b);

// The first step with a different digest. Both must have the same names. Throws Fault::corrupt if the cause is a
// damaged file.
std::optional<Difference> first_record_difference(const record::FingerprintReader& a,
                                                  const record::FingerprintReader& b);

}  // namespace estrain::verify
