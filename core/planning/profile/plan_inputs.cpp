#include "core/planning/profile/plan_inputs.h"

#include <algorithm>

#include "core/planning/profile/crowding.h"
#include "core/planning/profile/exchange_fit.h"

namespace estrain::profile {
namespace {

// Fits all samples of all kinds together, for the mean of the kinds.
plan::Exchange common_exchange(const std::vector<const Capability*>& known) {
  std::vector<ExchangeSample> samples;
  for (const Capability* capability : known)
    samples.insert(samples.end(), capability->exchanges.begin(), capability->exchanges.end());
  return fit_exchange(samples);
}

// Divides by the crowding if a kind was never measured with a single worker.
double seconds_alone(const MiniBatchSample& base, const std::vector<double>& crowding) {
  return base.estimate.seconds / crowding[static_cast<size_t>(base.workers) - 1];
}

bool knows_several_workers(const Capability& capability) {
  return std::ranges::any_of(capability.mini_batches, [](const MiniBatchSample& s) { return s.workers > 1; }) &&
         std::ranges::any_of(capability.exchanges, [](const ExchangeSample& s) { return s.workers > 1; });
}

// Returns the number of devices of the same model, including this device.
int64_t devices_like(const std::string& kind, const Host& host, const std::vector<KindCount>& kinds) {
  int64_t alike = 0;
  for (const KindCount& other : kinds) alike += host.model_of(other.kind) == host.model_of(kind) ? other.count : 0;
  return alike;
}

Basis basis_of(const std::string& kind, const Capability& capability, double seconds, int64_t now) {
  const Estimate& estimate = capability.base()->estimate;
  return {kind,
          seconds,
          estimate.spread,
          estimate.samples,
          estimate.age(now),
          capability.memory ? capability.memory->worker : 0};
}

}  // namespace

PlanInputs plan_job(const Profiles& profiles, const spec::JobSpec& spec, const Host& host,
                    const std::vector<KindCount>& kinds, int64_t now, bool allow_mixed) {
  PlanInputs inputs;
  std::vector<const Capability*> known;
  std::vector<const KindCount*> counts;
  int64_t devices = 0, most_workers = 1;
  for (const KindCount& kind : kinds) {
    devices += kind.count;
    const Capability* capability = profiles.find(describe_work(spec, kind.kind, host));
    if (capability == nullptr || !capability->measured()) {
      inputs.missing.push_back(kind.kind);
      continue;
    }
    known.push_back(capability);
    counts.push_back(&kind);
    most_workers = std::max(most_workers, capability->base()->workers);
  }
  inputs.job.ests = spec.job.ests;
  inputs.job.one_kind = spec.job.determinism != spec::Determinism::d2 && !allow_mixed;
  inputs.job.exchange = common_exchange(known);
  inputs.job.crowding =
      crowding(known, std::max(most_workers, std::min(devices, spec.job.ests)), spec.job.threads, host.cores);
  for (size_t i = 0; i < known.size(); ++i) {
    const double seconds = seconds_alone(*known[i]->base(), inputs.job.crowding);
    inputs.groups.push_back({.kind = counts[i]->kind,
                             .count = counts[i]->count,
                             .mini_batches_per_second = 1 / seconds,
                             .model = host.model_of(counts[i]->kind)});
    inputs.basis.push_back(basis_of(counts[i]->kind, *known[i], seconds, now));
    const int64_t alike = devices_like(counts[i]->kind, host, kinds);
    const int64_t together = std::min(inputs.job.one_kind ? alike : devices, spec.job.ests);
    if (together > 1 && !knows_several_workers(*known[i])) inputs.incomplete.push_back(counts[i]->kind);
  }
  return inputs;
}

}  // namespace estrain::profile
