#include "core/engine/train/shared/nonfinite_search.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/data/reading/loader.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::train {
namespace {

using comm::Nonfinite;

constexpr size_t kMostSamplesNamed = 32;

Nonfinite ask(Workplace& place, const data::LoadedBatch& batch, Step step) {
  Nonfinite found;
  found.rank = batch.rank().value;
  const device::FinishAtEnd finish(place.device);
  const torch::Tensor loss = forward(place, batch, step);
  place.hooks.backward(loss, [&](size_t parameter, const float* gradient) {
    if (gradient == nullptr || found.where != Nonfinite::Where::nowhere) return;
    const float* end = gradient + place.job.places().model.elements(parameter);
    const float* at = std::find_if_not(gradient, end, [](float value) { return std::isfinite(value); });
    if (at == end) return;
    found.where = Nonfinite::Where::gradient;
    found.tensor = static_cast<int64_t>(parameter);
    found.value = *at;
  });
  place.device.finish();
  found.loss = loss.item<float>();
  if (found.where == Nonfinite::Where::nowhere && !std::isfinite(found.loss)) {
    found.where = Nonfinite::Where::loss;
    found.value = found.loss;
  }
  return found;
}

Nonfinite find_est(Workplace& place, Step step, comm::WorkerPulse& pulse) {
  data::Loader loader = place.job.samples().loader_of_step(step, place.job.places().ests.all());
  for (int64_t left = place.job.spec().job.ests; left > 0 && !place.memory.gate().aborted(); --left) {
    pulse.beat(comm::Activity::computing, monotonic_ns());
    const data::LoadedBatch batch = loader.next();
    const Nonfinite found = ask(place, batch, step);
    if (found.where != Nonfinite::Where::nowhere) return found;
  }
  return {};
}

Nonfinite find_in_update(const Updater& updater, Nonfinite::Where suspect) {
  Nonfinite found;
  if (suspect == Nonfinite::Where::update) found = updater.first_nonfinite_result();
  if (suspect == Nonfinite::Where::norm) found = {.where = suspect, .value = updater.total_norm()};
  if (found.where == Nonfinite::Where::nowhere) found.where = Nonfinite::Where::unknown;
  return found;
}

// "3, 17, 4"
std::string samples_of(const TrainingJob& job, Step step, VirtualRank rank) {
  std::vector<int64_t> samples = job.samples().sampler().indices(step, rank);
  const bool more = samples.size() > kMostSamplesNamed;
  if (more) samples.resize(kMostSamplesNamed);
  return fmt::format("{}{}", fmt::join(samples, ", "), more ? ", …" : "");
}

}  // namespace

Nonfinite find_nonfinite(Workplace& place, const Updater& updater, Step step, comm::WorkerPulse& pulse) {
  const Nonfinite::Where suspect = place.memory.ring().pending().head->suspect;
  const Nonfinite found = find_est(place, step, pulse);
  return found.where != Nonfinite::Where::nowhere ? found : find_in_update(updater, suspect);
}

Error nonfinite_error(const TrainingJob& job, Step step, const Nonfinite& found) {
  std::string advice =
      "lower the learning rate, warm it up or clip gradients (train.clip_grad_norm), or let such steps pass without an "
      "update: train.nonfinite = \"skip\"";
  if (found.rank >= 0) {
    advice += fmt::format("\nsamples of virtual rank {} in that step, counted from 0: {}", found.rank,
                          samples_of(job, step, VirtualRank(found.rank)));
  }
  return Error::make(Fault::infeasible, "step {}: {}", step.next(), in_words(found, job.manifest().digest_names))
      .advise(advice)
      .caused_by("model_diverged");
}

}  // namespace estrain::train
