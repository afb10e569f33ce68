#include "core/engine/train/shared/factor_offers.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "core/base/clock.h"
#include "core/engine/est/fold.h"
#include "core/engine/operators/random_stream.h"
#include "core/engine/train/job/batch_tensors.h"
#include "core/engine/train/shared/row_sums.h"

namespace estrain::train {

std::vector<size_t> factor_candidates(const TrainingJob& job) {
  std::vector<size_t> candidates;
  if (job.samples().train().shape().is_ragged()) return candidates;
  const std::vector<torch::Tensor>& parameters = job.network().parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto elements = static_cast<size_t>(parameters[i].numel());
    if (parameters[i].dim() == 2 && comm::FactorPlaces::can_hold(elements, job.spec().job.ests))
      candidates.push_back(i);
  }
  return candidates;
}

int64_t rows_of_full_batch(const TrainingJob& job, Step step, VirtualRank rank, int64_t rows) {
  const data::EpochSampler& sampler = job.samples().sampler();
  const auto samples = static_cast<int64_t>(sampler.indices(step, rank).size());
  return samples == 0 || rows % samples != 0 ? 0 : rows / samples * sampler.batch();
}

std::optional<double> seconds_of_product(const GradientFactors& factors, at::IntArrayRef sizes, const float* gradient,
                                         float factor) {
  torch::Tensor product = gradient_of(factors, sizes);
  const auto n = static_cast<size_t>(product.numel());
  if (!product.is_contiguous() || std::memcmp(product.const_data_ptr<float>(), gradient, n * sizeof(float)) != 0)
    return std::nullopt;
  int64_t least = std::numeric_limits<int64_t>::max();
  FactoredRows rows({.arrivals = {{0, 0}}, .passed_on = 1, .buffers = 1}, factor);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const int64_t begin = monotonic_ns();
    if (takes_rows(factors, sizes[0])) {
      rows.sum({&factors, 1}, static_cast<size_t>(sizes[1]));
    } else {
      product.reset();  // the next product gets this memory
      product = gradient_of(factors, sizes);
      est::fold({}, product.const_data_ptr<float>(), factor, product.mutable_data_ptr<float>(), n);
    }
    least = std::min(least, monotonic_ns() - begin);
  }
  return static_cast<double>(least) * 1e-9;
}

std::vector<comm::ProbedFactors> probe_factors(const DryRun& trial, const data::LoadedBatch& batch) {
  std::vector<torch::Tensor> parameters;
  const std::vector<size_t> candidates = factor_candidates(trial.job);
  for (const size_t i : candidates) parameters.push_back(trial.job.network().parameters()[i]);
  const FactorWatch watch(parameters);
  std::map<size_t, GradientFactors> seen;  // [parameter]
  std::vector<comm::ProbedFactors> found;
  const auto weigh = [&](size_t parameter, const float* gradient) {
    const GradientFactors factors = std::exchange(seen[parameter], {});
    const at::IntArrayRef sizes = trial.job.network().parameters()[parameter].sizes();
    if (factors.form == comm::FactorForm::none || gradient == nullptr || !are_storable(factors, sizes)) return;
    const int64_t rows = rows_of_full_batch(trial.job, Step(0), VirtualRank(0), factors.rows());
    const auto seconds = seconds_of_product(factors, sizes, gradient, trial.job.gradient_sum().factor());
    if (rows == 0 || !seconds) return;
    found.push_back({.parameter = static_cast<int64_t>(parameter),
                     .gradient_bytes = static_cast<uint64_t>(c10::multiply_integers(sizes)) * sizeof(float),
                     .bytes = bytes_of_factors(factors.form, rows, sizes),
                     .seconds = *seconds});
  };
  operators::begin_random_stream(0, operators::warming_stream, 0);
  const torch::Tensor loss = trial.job.network().model().loss(as_tensors(batch, trial.device));
  watch.watch(loss, [&](size_t i, const GradientFactors& factors) { seen[candidates[i]] = factors; });
  trial.hooks.backward(loss, weigh);
  trial.device.finish();
  return found;
}

}  // namespace estrain::train
