#include "core/planning/profile/plan_inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/planning/profile/stage_speed.h"

namespace estrain::profile {
namespace {

constexpr size_t kTerms = 4;
constexpr double kRidge = 1e-9;  // relative to the diagonal: decides only in directions left open by the samples

using Vector = std::array<double, kTerms>;
using Matrix = std::array<Vector, kTerms>;

plan::ExchangeCost exchange_of(const Vector& terms) { return {terms[0], terms[1], terms[2], terms[3]}; }

// Returns the weight of each coefficient in a sample by evaluating the model, which is linear in the coefficients.
Vector row_of(const ExchangeSample& sample) {
  Vector row{};
  for (size_t i = 0; i < kTerms; ++i) {
    Vector unit{};
    unit[i] = 1;
    row[i] = exchange_of(unit).seconds(sample.workers, sample.partial_sums);
  }
  return row;
}

struct NormalEquations {
  Matrix squares{};
  Vector products{};
};

NormalEquations normal_equations(const std::vector<ExchangeSample>& samples) {
  NormalEquations equations;
  double trace = 0;
  for (const ExchangeSample& sample : samples) {
    const Vector row = row_of(sample);
    const double weight =
        std::clamp(static_cast<double>(sample.estimate.samples), 0.5, static_cast<double>(Estimate::kMemory));
    for (size_t i = 0; i < kTerms; ++i) {
      equations.products[i] += weight * row[i] * sample.estimate.seconds;
      for (size_t j = 0; j < kTerms; ++j) equations.squares[i][j] += weight * row[i] * row[j];
      trace += weight * row[i] * row[i];
    }
  }
  for (size_t i = 0; i < kTerms; ++i) equations.squares[i][i] += kRidge * trace;
  return equations;
}

// Solves for the `chosen` terms by Cholesky's method; returns nothing if a term is negative.
std::optional<Vector> solve(const NormalEquations& equations, unsigned chosen) {
  Matrix lower{};
  Vector halfway{}, terms{};
  const auto uses = [&](size_t i) { return (chosen >> i & 1u) != 0; };
  for (size_t i = 0; i < kTerms; ++i) {
    if (!uses(i)) continue;
    for (size_t j = 0; j <= i; ++j) {
      if (!uses(j)) continue;
      double rest = equations.squares[i][j];
      for (size_t k = 0; k < j; ++k) rest -= lower[i][k] * lower[j][k];
      if (i == j && rest <= 0) return std::nullopt;
      lower[i][j] = i == j ? std::sqrt(rest) : rest / lower[j][j];
    }
    double rest = equations.products[i];
    for (size_t k = 0; k < i; ++k) rest -= lower[i][k] * halfway[k];
    halfway[i] = rest / lower[i][i];
  }
  for (size_t i = kTerms; i-- > 0;) {
    if (!uses(i)) continue;
    double rest = halfway[i];
    for (size_t k = i + 1; k < kTerms; ++k) rest -= lower[k][i] * terms[k];
    terms[i] = rest / lower[i][i];
    if (terms[i] < 0) return std::nullopt;
  }
  return terms;
}

// The squared residual, up to a constant.
double cost(const NormalEquations& equations, const Vector& terms) {
  double sum = 0;
  for (size_t i = 0; i < kTerms; ++i) {
    double row = -2 * equations.products[i];
    for (size_t j = 0; j < kTerms; ++j) row += equations.squares[i][j] * terms[j];
    sum += row * terms[i];
  }
  return sum;
}

// Fits all samples of all kinds together, for the mean of the kinds.
plan::ExchangeCost common_exchange(const std::vector<const Capability*>& known) {
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
int64_t devices_like(const std::string& kind, const MachineFacts& host, const std::vector<KindCount>& kinds) {
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

plan::ExchangeCost fit_exchange(const std::vector<ExchangeSample>& samples) {
  if (samples.empty()) return {};
  const NormalEquations equations = normal_equations(samples);
  Vector best{};
  double least = 0;  // the cost without any term
  for (unsigned chosen = 1; chosen < 1u << kTerms; ++chosen) {
    const std::optional<Vector> terms = solve(equations, chosen);
    if (!terms || cost(equations, *terms) >= least) continue;
    least = cost(equations, *terms);
    best = *terms;
  }
  return exchange_of(best);
}

PlanInputs plan_job(const Profiles& profiles, const spec::JobSpec& spec, const MachineFacts& host,
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
