#pragma once
// What factors of a gradient (core/state/comm/gradient_factors.h) cost: their size for a full mini-batch, and the time
// of their product.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/engine/train/job/job.h"
#include "core/engine/train/job/trial.h"
#include "core/engine/train/shared/gradient_factors.h"
#include "core/state/comm/messages/probe_messages.h"

namespace estrain::train {

// The parameters whose gradients may go as factors: matrices that are large enough, in a job whose mini-batches have
// equal numbers of rows.
std::vector<size_t> factor_candidates(const TrainingJob& job);

// Factors of one EST's mini-batch in the step after `step` have this many rows. Returns the rows for a full mini-batch;
// 0: rows do not belong to samples.
int64_t rows_of_full_batch(const TrainingJob& job, Step step, VirtualRank rank, int64_t rows);

// Returns the seconds to compute the gradient and add it to a sum, as another host does; nothing if the product has
// other bits than `gradient`, which is contiguous.
std::optional<double> seconds_of_product(const GradientFactors& factors, at::IntArrayRef sizes, const float* gradient,
                                         float factor);

// Runs virtual rank 0's first mini-batch, which is a full one, on the CPU. Returns the factors of each candidate that
// has factors.
std::vector<comm::ProbedFactors> probe_factors(const DryRun& trial, const data::LoadedBatch& batch);

}  // namespace estrain::train
