#include "core/planning/dispatch/trace/past_job.h"

#include <algorithm>
#include <tuple>

namespace estrain::dispatch {
namespace {

// The number of mini-batches one after another: of the worker with most ESTs; where the pool's workers share cores, of
// the whole job on its part of the cores, since a waiting worker leaves its core to the rest of the job.
struct Turns {
  int64_t ests, cores;
  double of(int64_t devices, double in_use) const {
    const auto own = static_cast<double>(devices);
    const double part = std::min(1.0, static_cast<double>(cores) / std::max(in_use, own));
    return std::max(static_cast<double>(most_ests(ests, devices)), static_cast<double>(ests) / (own * part));
  }
};

}  // namespace

double PastJob::seconds_of(std::string_view what, size_t nth) const {
  for (const Took& one : took) {
    if (one.what == what && nth-- == 0) return one.seconds;
  }
  if (what == "start") return start;
  if (what == "grow") return grow;
  if (what == "lost") return lost;
  if (what == "move") return move.value_or(start);
  return what == "shrink" ? shrink : stop;
}

double PastJob::step_seconds(const std::string& type, int64_t devices, int64_t in_use, int64_t cores) const {
  const auto differs = [&](const PastSpeed& one) {
    return std::tuple(one.type != type, apart(one.devices, devices), apart(one.in_use, in_use));
  };
  const PastSpeed& nearest = *std::ranges::min_element(seen, {}, differs);
  const Turns turns{request.ests, cores};
  return nearest.step_seconds * turns.of(devices, static_cast<double>(in_use)) /
         turns.of(nearest.devices, static_cast<double>(nearest.in_use));
}

const PastJob::PastPace* PastJob::pace_at(double moment, const std::string& type, int64_t devices) const {
  const auto away = [&](const PastPace& pace) { return std::max({pace.from - moment, moment - pace.to, 0.0}); };
  const PastPace* nearest = nullptr;
  for (auto pace = std::ranges::lower_bound(paces, moment - kNear, {}, &PastPace::to);
       pace != paces.end() && pace->from <= moment + kNear; ++pace) {
    const bool is_same = pace->type == type && pace->devices == devices;
    if (is_same && (nearest == nullptr || away(*pace) <= away(*nearest))) nearest = &*pace;
  }
  return nearest;
}

double PastJob::step_seconds_at(double moment, const Where& where) const {
  const PastPace* pace = pace_at(moment, where.type, where.devices);
  if (pace == nullptr) return step_seconds(where.type, where.devices, where.in_use, where.cores);
  const Turns turns{request.ests, where.cores};
  return pace->step_seconds * turns.of(where.devices, static_cast<double>(where.in_use)) /
         turns.of(pace->devices, pace->in_use);
}

}  // namespace estrain::dispatch
