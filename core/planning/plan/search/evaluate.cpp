#include <algorithm>

#include "core/base/error.h"
#include "core/planning/plan/partial_sums.h"
#include "core/planning/plan/plan.h"
#include "core/planning/plan/search/feasibility.h"
#include "core/planning/plan/search/figure.h"

namespace estrain::plan {
namespace {

// "cpu:sse with 3 ESTs sets the pace; imbalance leaves 12 % of the devices' speed idle, and the exchange takes 4 % of
// the step"
std::string limits_of(const Plan& plan, const DeviceGroup& slowest, int64_t ests, double rates) {
  std::string text = fmt::format("{} with {} EST{} sets the pace", slowest.kind, ests, ests == 1 ? "" : "s");
  const double idle = 100 * plan.waste / rates, exchange = 100 * plan.exchange_seconds / plan.step_seconds;
  if (plan.workers.size() > 1) text += fmt::format("; imbalance leaves {:.0f} % of the devices' speed idle", idle);
  if (exchange >= 0.5)
    text +=
        fmt::format("{} the exchange takes {:.0f} % of the step", plan.workers.size() > 1 ? ", and" : ";", exchange);
  return text;
}

}  // namespace

double ExchangeCost::seconds(int64_t workers, int64_t partial_sums) const {
  const auto each = static_cast<double>(workers);
  return base + per_worker * (each - 1) + (per_sum * static_cast<double>(partial_sums - 1) + update) / each;
}

double PlannedJob::crowding_of(int64_t workers) const {
  if (crowding.empty()) return 1;
  return crowding[static_cast<size_t>(std::min(workers, std::ssize(crowding)) - 1)];
}

// L_1 = pace; L_1 + ... + L_W = work.
double PlannedJob::compute_seconds(int64_t workers, Load load) const {
  const double alone = crowding_of(1), together = crowding_of(workers);
  if (workers == 1 || together <= alone) return together * load.pace;
  const double each = (together - alone) / static_cast<double>(workers - 1);
  return (alone - each) * load.pace + each * load.work;
}

Plan evaluate(const PlannedJob& job, const std::vector<DeviceGroup>& groups, std::vector<WorkerShare> workers) {
  check_job(job);
  check_groups(groups);
  check_workers(job, groups, workers);
  Plan plan;
  const auto group_of = [&](const WorkerShare& share) -> const DeviceGroup& {
    return groups[static_cast<size_t>(share.group)];
  };
  double rates = 0;
  for (const WorkerShare& share : workers) rates += group_of(share).mini_batches_per_second;
  const Load load = load_of(groups, workers);
  const WorkerShare slowest = *std::ranges::max_element(
      workers, {}, [&](const WorkerShare& share) { return pace_of(group_of(share), share.ests); });
  const auto count = std::ssize(workers);
  plan.workers = std::move(workers);
  plan.partial_sums = partial_sums_of(job.ests, plan.workers, &WorkerShare::ests);
  plan.compute_seconds = job.compute_seconds(count, load);
  plan.exchange_seconds = job.exchange.seconds(count, plan.partial_sums);
  plan.step_seconds = plan.compute_seconds + plan.exchange_seconds;
  plan.waste = std::max(0.0, rates - static_cast<double>(job.ests) / load.pace);
  plan.throughput = static_cast<double>(job.ests) / plan.step_seconds;
  plan.reason = limits_of(plan, group_of(slowest), slowest.ests, rates);
  return plan;
}

}  // namespace estrain::plan
