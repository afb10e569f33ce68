#include "core/planning/profile/stage_speed.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/planning/plan/partial_sums.h"
#include "core/planning/plan/plan.h"

namespace estrain::profile {
namespace {

// {workers: mean factor over a single worker}, from measurements.
std::map<int64_t, double> measured_factors(const std::vector<const Capability*>& kinds) {
  std::map<int64_t, std::pair<double, int64_t>> sums;
  for (const Capability* kind : kinds) {
    const Estimate* alone = kind->mini_batch(1);
    if (alone == nullptr) continue;
    for (const MiniBatchSample& sample : kind->mini_batches) {
      auto& [sum, number] = sums[sample.workers];
      sum += sample.estimate.seconds / alone->seconds;
      ++number;
    }
  }
  std::map<int64_t, double> factors = {{1, 1.0}};
  for (const auto& [workers, sum] : sums) factors[workers] = sum.first / static_cast<double>(sum.second);
  return factors;
}

bool is_time(double seconds) { return std::isfinite(seconds) && seconds > 0; }

StageSpeed::Worker read_worker(const Json& json) {
  StageSpeed::Worker worker;
  worker.kind = json.at("device").get<std::string>();
  worker.ests = json.at("ests").get<int64_t>();
  worker.mini_batches = json.at("mini_batches").get<int64_t>();
  worker.computing_seconds = json.at("computing_seconds").get<double>();
  return worker;
}

bool is_sound(const StageSpeed& stage) {
  const auto sound = [](const StageSpeed::Worker& worker) {
    return worker.ests > 0 && worker.mini_batches > 0 && is_time(worker.computing_seconds);
  };
  return stage.steps > 0 && is_time(stage.seconds) && !stage.workers.empty() &&
         std::ranges::all_of(stage.workers, sound);
}

double busy_seconds(const StageSpeed::Worker& worker) {
  return static_cast<double>(worker.ests) * worker.mini_batch_seconds();
}

}  // namespace

double turns(int64_t workers, int64_t threads, int64_t cores) {
  return std::max(1.0, static_cast<double>(workers * threads) / static_cast<double>(std::max<int64_t>(1, cores)));
}

std::vector<double> crowding(const std::vector<const Capability*>& kinds, int64_t workers, int64_t threads,
                             int64_t cores) {
  const std::map<int64_t, double> factors = measured_factors(kinds);
  std::vector<double> all;
  for (int64_t w = 1; w <= workers; ++w) {
    const auto above = factors.lower_bound(w);
    if (above == factors.end()) {
      const auto& [last, factor] = *factors.rbegin();
      all.push_back(factor * turns(w, threads, cores) / turns(last, threads, cores));
    } else if (above->first == w) {
      all.push_back(above->second);
    } else {
      const auto below = std::prev(above);
      const double part = static_cast<double>(w - below->first) / static_cast<double>(above->first - below->first);
      all.push_back(below->second + part * (above->second - below->second));
    }
  }
  return all;
}

std::optional<StageSpeed> StageSpeed::from_event(const Json& event) {
  try {
    if (event.at("event") != "stage_speed") return std::nullopt;
    StageSpeed stage;
    stage.steps = event.at("steps").get<int64_t>();
    stage.seconds = event.at("seconds").get<double>();
    for (const Json& worker : event.at("workers")) stage.workers.push_back(read_worker(worker));
    return is_sound(stage) ? std::optional(stage) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

double StageSpeed::compute_seconds() const {
  double slowest = 0;
  for (const Worker& worker : workers) slowest = std::max(slowest, busy_seconds(worker));
  return slowest;
}

double StageSpeed::exchange_seconds() const { return std::max(0.0, step_seconds() - compute_seconds()); }

int64_t StageSpeed::partial_sums() const {
  int64_t ests = 0;
  for (const Worker& worker : workers) ests += worker.ests;
  return plan::partial_sums_of(ests, workers, &Worker::ests);
}

std::vector<double> crowded_all_the_time(const StageSpeed& stage, const std::vector<double>& crowding) {
  const size_t workers = stage.workers.size();
  std::vector<size_t> order(workers);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return busy_seconds(stage.workers[i]); });
  plan::PlannedJob job;
  job.crowding = crowding;
  const double full = job.crowding_of(std::ssize(stage.workers));
  std::vector<double> factors(workers, 1);
  double finished = 0, alone = 0;  // the previous worker's time of finishing, and the time of its work alone
  for (size_t k = 0; k < workers; ++k) {
    const double busy = busy_seconds(stage.workers[order[k]]);
    alone += (busy - finished) / job.crowding_of(static_cast<int64_t>(workers - k));
    finished = busy;
    factors[order[k]] = full * alone / busy;
  }
  return factors;
}

}  // namespace estrain::profile
