#pragma once
// The first step whose records differ.

#include <optional>

#include "core/verify/comparison.h"

namespace estrain::verify {

// Steps whose losses, or whose digests, both recorded.
CommonSteps common_steps(const record::Metrics& a, const record::Metrics& b);
CommonSteps common_steps(const record::FingerprintReader& a, const record::FingerprintReader& b);

// The first step at which an EST's loss differs in any bit, with all that differ there. A mean that differs although
// the ESTs' losses agree counts too: it has no LossDifference.
std::optional<Difference> first_loss_difference(const record::Metrics& a, const record::Metrics& b);

// The first step at which a digest differs. Both have the same names. Throws Fault::corrupt if it differs because a
// file is damaged.
std::optional<Difference> first_record_difference(const record::FingerprintReader& a,
                                                  const record::FingerprintReader& b);

}  // namespace estrain::verify
