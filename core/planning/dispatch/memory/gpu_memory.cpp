// Memory of GPUs. A GPU has one job at most. What the job needs on each depends on their number, since they share the
// optimizer's slots and the ESTs: a job may need two GPUs at least, and fewer do not hold it.

#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.h"
#include "core/base/process/memory_use.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/turn.h"

namespace estrain::dispatch {
namespace {

// Returns the least that a GPU of the group has, of those whose memory is known.
std::optional<double> memory_on_each(const State& state, const std::string& group) {
  std::optional<double> least;
  for (const Slot& slot : state.slots) {
    if (slot.state != Slot::State::present || slot.group() != group) continue;
    const auto at = state.gpu_memory.find(slot.name);
    if (at != state.gpu_memory.end()) least = std::min(least.value_or(at->second), at->second);
  }
  return least;
}

// 0: not known.
double needed_on_each(const Job& job, int64_t gpus) {
  const std::vector<double>& known = job.memory.gpus;
  if (known.empty() || gpus < 1) return 0;
  return job.memory.gpu_ratio * known[std::min(known.size(), static_cast<size_t>(gpus)) - 1];
}

bool suffices(double memory, double needed) {
  constexpr double kRounding = 1;  // byte
  return needed <= memory + kRounding;
}

int64_t most_gpus(const State& state, const Job& job, const std::string& group) {
  return std::min({capacity(state, group), job.request.most, job.request.ests});
}

// The devices of a job, where all are GPUs of one host; nothing: other devices, or none.
std::optional<std::pair<std::string, int64_t>> only_gpus(const Target& devices) {
  std::optional<std::pair<std::string, int64_t>> only;
  for (const auto& [group, count] : devices) {
    if (count <= 0) continue;
    if (only || type_in(group) != "cuda") return std::nullopt;
    only = {group, count};
  }
  return only;
}

// Returns the largest ratio of the memory of a GPU to what the job needs there; 0: memory or need is not known.
double best_ratio(const State& state, const Job& job) {
  double best = 0;
  for (const std::string& group : groups_of(state)) {
    const std::optional<double> memory = memory_on_each(state, group);
    for (int64_t gpus = 1; memory && gpus <= most_gpus(state, job, group); ++gpus)
      if (const double needed = needed_on_each(job, gpus); needed > 0) best = std::max(best, *memory / needed);
  }
  return best;
}

// "12.0 GiB on each of 2 GPUs"
std::string needs_text(const Job& job, int64_t gpus) {
  return fmt::format("{} on {}{}", format_bytes(static_cast<uint64_t>(needed_on_each(job, gpus))),
                     gpus > 1 ? "each of " : "", counted(gpus, "GPU"));
}

}  // namespace

bool knows_gpu_memory(const State& state, const Job& job) {
  return !state.gpu_memory.empty() && !job.memory.gpus.empty();
}

bool gpus_hold(const State& state, const Job& job, const Target& devices) {
  if (!knows_gpu_memory(state, job)) return true;
  const auto gpus = only_gpus(devices);
  if (!gpus) return true;
  const double needed = needed_on_each(job, gpus->second);
  if (needed <= 0) return true;
  const std::optional<double> memory = memory_on_each(state, gpus->first);
  return !memory || suffices(*memory, needed);
}

std::optional<int64_t> nearest_on_gpus(const State& state, const Job& job, const std::string& group, int64_t wanted,
                                       int64_t most) {
  if (most < 1) return std::nullopt;
  wanted = std::clamp<int64_t>(wanted, 1, most);
  for (int64_t away = 0; away < most; ++away) {
    for (const int64_t gpus : {wanted - away, wanted + away})
      if (gpus >= 1 && gpus <= most && gpus_hold(state, job, {{group, gpus}})) return gpus;
  }
  return std::nullopt;
}

std::optional<int64_t> fewest_on_gpus(const State& state, const Job& job, const std::string& group) {
  return nearest_on_gpus(state, job, group, 1, most_gpus(state, job, group));
}

double needed_of_gpu(const State& state, const Job& job) {
  const auto gpus = only_gpus(held_by(state, job.id));
  return gpus ? needed_on_each(job, gpus->second) : 0;
}

bool raise_gpu_needs(DispatchTurn& turn, Job& job, const Target& had) {
  const State& state = turn.state;
  const auto gpus = only_gpus(had);
  if (!gpus || needed_on_each(job, gpus->second) <= 0 || !memory_on_each(state, gpus->first)) return false;
  if (!gpus_hold(state, job, had)) return true;
  const std::string before = needs_text(job, gpus->second);
  job.memory.gpu_ratio *= std::clamp(best_ratio(state, job), 1.0, 2.0);
  turn.act(note_of(job, "memory",
                   fmt::format("memory of a GPU was lacking: it counts for {} from now on, not {}",
                               needs_text(job, gpus->second), before)));
  return true;
}

std::string lack_of_gpu_memory(const State& state, const Job& job) {
  if (!knows_gpu_memory(state, job)) return "";
  std::string best;
  std::pair<bool, double>
      worth;  // of the best group: whether a number of its GPUs holds the job, and the memory of each
  bool each_holds_it = true;
  for (const std::string& group : groups_of(state)) {
    const std::optional<double> memory = memory_on_each(state, group);
    if (!memory || type_in(group) != job.request.type) continue;
    each_holds_it &= gpus_hold(state, job, {{group, 1}});
    const std::pair<bool, double> own = {fewest_on_gpus(state, job, group).has_value(), *memory};
    if (own > worth) worth = own, best = group;
  }
  if (each_holds_it) return "";
  const std::string bytes = format_bytes(static_cast<uint64_t>(worth.second));
  if (const std::optional<int64_t> fewest = fewest_on_gpus(state, job, best))
    return fmt::format("it needs {}, and of {}, with {} on each, not so many are free", needs_text(job, *fewest), best,
                       bytes);
  int64_t least = 1;  // the number with the least need
  for (int64_t gpus = 2; gpus <= most_gpus(state, job, best); ++gpus)
    if (needed_on_each(job, gpus) < needed_on_each(job, least)) least = gpus;
  return fmt::format("it needs {}, and a GPU of {} has {}", needs_text(job, least), best, bytes);
}

}  // namespace estrain::dispatch
