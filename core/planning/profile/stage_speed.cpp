#include "core/planning/profile/stage_speed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/planning/plan/partial_sums.h"
#include "core/planning/plan/plan.h"

namespace estrain::profile {
namespace {

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
