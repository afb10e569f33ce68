#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <utility>

#include "core/base/error.h"
#include "core/planning/plan/partial_sums.h"
#include "core/planning/plan/plan.h"
#include "core/planning/plan/search/feasibility.h"
#include "core/planning/plan/search/figure.h"
#include "core/planning/plan/search/fleet.h"
#include "core/planning/plan/search/split.h"

namespace estrain::plan {
namespace {

// Finds the best plan if more than the pace counts: with devices of different speeds that slow each other down, moving
// work from a slow device to a fast device can shorten the step at the same pace. Search, which goes pace by
// pace, does not see this.
//
// Branch and bound over the number of ESTs on each device, treating the devices of a group alike. For promising numbers
// the search then orders the ranges for the fewest partial sums.
class MixSearch {
 public:
  MixSearch(const PlannedJob& job, const Fleet& fleet);

  // Stores a better plan in `best` and `split` if a better plan exists. Subtracts its steps from `budget`; returns
  // false if the search was cut short.
  bool run(Figure& best, std::vector<WorkerShare>& split, int64_t& budget);

 private:
  // The remaining devices: `left` of `group`, each with at most `most` ESTs, and all later groups.
  struct Position {
    size_t group;
    int64_t left, most;
  };
  void visit(Position at, int64_t ests, int64_t workers, Load load);
  bool may_be_better(size_t next, int64_t ests, int64_t workers, int64_t most_workers, Load load) const;
  void order_ranges(int64_t workers, Load load);
  const DeviceGroup& group(size_t index) const;

  const PlannedJob& job_;
  const Fleet& fleet_;
  ExactSplit exact_;
  Figure best_;
  std::vector<WorkerShare> split_;
  std::vector<WorkerShare> chosen_;    // the current path of the search
  std::vector<int64_t> devices_from_;  // [i]: devices of the i-th fastest group and all slower groups
  int64_t budget_ = 0;
  bool complete_ = true;
};

MixSearch::MixSearch(const PlannedJob& job, const Fleet& fleet) : job_(job), fleet_(fleet), exact_(job.ests) {
  devices_from_.assign(fleet.members().size() + 1, 0);
  for (size_t i = fleet.members().size(); i-- > 0;) devices_from_[i] = devices_from_[i + 1] + group(i).count;
}

const DeviceGroup& MixSearch::group(size_t index) const { return fleet_.group(fleet_.members()[index]); }

bool MixSearch::run(Figure& best, std::vector<WorkerShare>& split, int64_t& budget) {
  best_ = best;
  split_.clear();
  budget_ = budget;
  complete_ = true;
  visit({0, group(0).count, group(0).most_ests}, job_.ests, 0, {});
  budget = std::max<int64_t>(0, budget_);
  if (!split_.empty()) {
    best = best_;
    split = std::move(split_);
  }
  return complete_;
}

// `ests` are left to assign; `workers` already have ESTs, with total `load`.
void MixSearch::visit(Position at, int64_t ests, int64_t workers, Load load) {
  if (ests == 0) return order_ranges(workers, load);
  if (at.left == 0) {
    if (++at.group == fleet_.members().size()) return;
    at.left = group(at.group).count;
    at.most = group(at.group).most_ests;
  }
  const int64_t most_workers = std::min(fleet_.most_workers(), workers + at.left + devices_from_[at.group + 1]);
  budget_ -= 1 + most_workers - workers;
  if (budget_ < 0) complete_ = false;
  if (!complete_ || !may_be_better(at.group, ests, workers, most_workers, load)) return;
  for (int64_t own = std::min(at.most, ests); own > 0; --own) {
    const double seconds = pace_of(group(at.group), own);
    chosen_.push_back({fleet_.members()[at.group], own});
    visit({at.group, at.left - 1, own}, ests - own, workers + 1, {std::max(load.pace, seconds), load.work + seconds});
    chosen_.pop_back();
  }
  visit({at.group, 0, 0}, ests, workers, load);
}

// Computes a lower bound: the remaining ESTs take at least as long as on the fastest remaining device, and every worker
// passes on at least one partial sum.
bool MixSearch::may_be_better(size_t next, int64_t ests, int64_t workers, int64_t most_workers, Load load) const {
  const auto left = static_cast<double>(ests);
  load.work += pace_of(group(next), ests);
  // If workers slow each other down more than taking turns would, a longer pace can give a shorter step.
  const double longest = std::max(load.pace, left / fleet_.slowest());
  for (int64_t w = workers + 1; w <= std::min(most_workers, workers + ests); ++w) {
    const double pace = job_.compute_seconds(w, {1, 0}) < 0 ? longest : load.pace;
    if (figure_of(job_, w, {pace, load.work}, w).better_than(best_)) return true;
  }
  return false;
}

void MixSearch::order_ranges(int64_t workers, Load load) {
  if (!figure_of(job_, workers, load, workers).better_than(best_)) return;
  std::map<std::pair<int64_t, int64_t>, int64_t, std::greater<>> devices;  // {ESTs, group}: number of devices
  for (const WorkerShare& share : chosen_) ++devices[{share.ests, share.group}];
  std::vector<Capacity> sizes;
  for (const auto& [size, count] : devices) sizes.push_back({size.first, count, size.second});
  int64_t excess = 0;
  while (figure_of(job_, workers, load, workers + excess + 1).better_than(best_) && workers + excess < job_.ests)
    ++excess;
  if (!exact_.run(sizes, {workers, excess}, budget_)) {
    complete_ = false;
    return;
  }
  if (exact_.excess(workers) < 0) return;
  best_ = figure_of(job_, workers, load, workers + exact_.excess(workers));
  split_ = exact_.split(workers);
}

// The search. For each set of devices that may work together and each number of workers W, the shortest pace is known,
// and every range passes on at least one partial sum; this gives a lower bound on the step. The search first tries
// greedy splits, lowest bound first. Then, pace by pace from the shortest, the search tries the splits with the fewest
// partial sums, while a bound is below the best plan. If work counts besides the pace, MixSearch searches over the
// numbers of ESTs instead.
class Search {
 public:
  Search(const PlannedJob& job, std::vector<Fleet> fleets) : job_(job), fleets_(std::move(fleets)), exact_(job.ests) {}

  // Returns no shares if there is no plan.
  std::vector<WorkerShare> run() {
    try_greedily();
    for (size_t fleet = 0; fleet < fleets_.size(); ++fleet) {
      if (pace_decides(fleets_[fleet])) {
        prove_by_pace(fleet);
      } else {
        prove_by_mix(fleet);
      }
    }
    return best_split_;
  }
  // Returns a lower bound on the step in seconds: the found plan's step, if all further plans were tried or ruled out.
  double proven_bound() const { return std::min(best_.step_seconds, left_out_); }

 private:
  // A number of workers that may give the best plan.
  struct Candidate {
    Figure bound;  // with exactly this many workers
    size_t fleet;
    std::optional<double> pace;  // the shortest; absent while the bound is rough
    bool operator>(const Candidate& other) const { return bound.step_seconds > other.bound.step_seconds; }
  };
  static constexpr int kPacesTried = 6;  // with greedy splits, for each candidate
  static constexpr int kMostMixed = 32;  // devices of different speeds for which all numbers of ESTs are searched
  static constexpr int kThirds = 60;     // steps of a ternary search for the least load
  static constexpr double kSmall = 1e-9;

  // Returns the bound for plans with this many workers at this pace or a longer pace.
  Figure bound(const Fleet& fleet, int64_t workers, double pace) const {
    return figure_of(job_, workers, least_load(fleet, workers, pace), workers);
  }

  // Returns the load with the least sum of pace and work, which is convex in the pace: a longer pace moves work off
  // slow devices.
  Load least_load(const Fleet& fleet, int64_t workers, double pace) const {
    const auto at = [&](double p) { return Load{p, fleet.least_work(p)}; };
    const auto seconds = [&](double p) { return job_.compute_seconds(workers, at(p)); };
    if (job_.compute_seconds(workers, {1, 0}) < 0)
      return {0, job_.crowding_of(1) * pace / job_.compute_seconds(workers, {0, 1})};
    double shorter = pace, longer = fleet.least_work(std::numeric_limits<double>::infinity());
    if (fleet.one_speed() || !(longer > shorter) || seconds(shorter * (1 + kSmall)) >= seconds(shorter))
      return at(shorter);
    for (int i = 0; i < kThirds; ++i) {
      const double left = shorter + (longer - shorter) / 3, right = longer - (longer - shorter) / 3;
      (seconds(left) < seconds(right) ? longer : shorter) = seconds(left) < seconds(right) ? right : left;
    }
    Load least = at(shorter);
    least.work *= 1 - kSmall;
    return least;
  }

  void try_greedily() {
    std::priority_queue queue(std::greater<Candidate>(), rough_candidates());
    while (!queue.empty() && queue.top().bound.better_than(best_)) {
      Candidate next = queue.top();
      queue.pop();
      if (next.pace) {
        open_.push_back(next);
        try_greedily(next);
      } else {
        next.pace = fleets_[next.fleet].shortest_pace(next.bound.workers);
        next.bound = bound(fleets_[next.fleet], next.bound.workers, *next.pace);
        queue.push(next);
      }
    }
  }

  std::vector<Candidate> rough_candidates() const {
    std::vector<Candidate> all;
    for (size_t i = 0; i < fleets_.size(); ++i) {
      for (int64_t workers = fleets_[i].fewest_workers(); workers <= fleets_[i].most_workers(); ++workers) {
        all.push_back({bound(fleets_[i], workers, fleets_[i].pace_bound(workers)), i, std::nullopt});
      }
    }
    return all;
  }

  // Tries several paces between the shortest and the longest that could still beat the best plan: a longer pace may pay
  // if it allows aligned cuts.
  void try_greedily(const Candidate& candidate) {
    place(candidate, *candidate.pace);
    for (int i = 1; i < kPacesTried; ++i) {
      const double longest = longest_pace(fleets_[candidate.fleet], candidate.bound.workers);
      if (!(longest > *candidate.pace)) return;
      place(candidate, *candidate.pace + (longest - *candidate.pace) * i / kPacesTried);
    }
  }

  double longest_pace(const Fleet& fleet, int64_t workers) const {
    const double seconds = best_.step_seconds - job_.exchange.seconds(workers, workers);
    const double for_work =
        job_.compute_seconds(workers, {0, fleet.least_work(std::numeric_limits<double>::infinity())});
    return std::max(0.0, seconds - for_work) / std::abs(job_.compute_seconds(workers, {1, 0}));
  }

  void place(const Candidate& candidate, double pace) {
    const int64_t workers = candidate.bound.workers;
    // The first plan ignores the budget: without a first plan, nothing can be compared.
    if (greedy_budget_ < workers && !best_split_.empty()) return;
    greedy_budget_ -= workers;
    const Fleet& fleet = fleets_[candidate.fleet];
    take(fleet, greedy_split(job_.ests, workers, fleet.capacities(pace)));
  }

  void take(const Fleet& fleet, std::vector<WorkerShare> split) {
    const Figure figure =
        figure_of(job_, std::ssize(split), fleet.load_of(split), partial_sums_of(job_.ests, split, &WorkerShare::ests));
    if (!figure.better_than(best_)) return;
    best_ = figure;
    best_split_ = std::move(split);
  }

  // Returns whether, at each pace and number of workers, the plans with the fewest partial sums are best, and a longer
  // pace alone never helps.
  bool pace_decides(const Fleet& fleet) const {
    for (int64_t workers = fleet.fewest_workers(); workers <= fleet.most_workers(); ++workers) {
      const bool work_counts = job_.compute_seconds(workers, {0, 1}) != 0;
      if (work_counts && (!fleet.one_speed() || job_.compute_seconds(workers, {1, 0}) < 0)) return false;
    }
    return true;
  }

  std::vector<Candidate> open_candidates(size_t fleet) const {
    std::vector<Candidate> open;
    std::ranges::copy_if(open_, std::back_inserter(open), [&](const Candidate& each) { return each.fleet == fleet; });
    std::ranges::sort(open, {}, &Candidate::pace);
    return open;
  }

  void prove_by_mix(size_t fleet) {
    const std::vector<Candidate> open = open_candidates(fleet);
    if (open.empty()) return;
    const bool small = fleets_[fleet].most_workers() <= kMostMixed;
    if (!small || !MixSearch(job_, fleets_[fleet]).run(best_, best_split_, mix_budget_)) leave_out(fleet, open, 0);
  }

  // Tries the candidates of a fleet at increasing paces, until none can be better.
  void prove_by_pace(size_t fleet) {
    std::vector<Candidate> open = open_candidates(fleet);
    std::optional<double> pace = 0;
    while (pace) {
      std::erase_if(open, [&](const Candidate& each) {
        return !bound(fleets_[fleet], each.bound.workers, std::max(*pace, *each.pace)).better_than(best_);
      });
      if (open.empty()) return;
      pace = std::max(*pace, *open.front().pace);
      if (!try_exactly(fleets_[fleet], open, *pace)) return leave_out(fleet, open, *pace);
      pace = fleets_[fleet].next_pace(*pace);
    }
  }

  // Records that the budget excludes these candidates at this pace and longer paces.
  void leave_out(size_t fleet, const std::vector<Candidate>& open, double pace) {
    for (const Candidate& each : open) {
      left_out_ =
          std::min(left_out_, bound(fleets_[fleet], each.bound.workers, std::max(pace, *each.pace)).step_seconds);
    }
  }

  // Tries all splits at a pace, for the candidates able to run at it. Returns false if the budget is too small.
  bool try_exactly(const Fleet& fleet, const std::vector<Candidate>& open, double pace) {
    ExactSplit::Bounds limits;
    const auto in_reach = std::ranges::upper_bound(open, pace, {}, [](const Candidate& each) { return *each.pace; });
    for (auto each = open.begin(); each != in_reach; ++each) {
      limits.workers = std::max(limits.workers, each->bound.workers);
      limits.excess = std::max(limits.excess, excess_allowed(fleet, each->bound.workers, pace));
    }
    if (!exact_.run(fleet.capacities(pace), limits, exact_budget_)) return false;
    for (auto each = open.begin(); each != in_reach; ++each) {
      const int64_t workers = each->bound.workers, excess = exact_.excess(workers);
      if (excess < 0 || !at_pace(fleet, workers, pace, excess).better_than(best_)) continue;
      take(fleet, exact_.split(workers));
    }
    return true;
  }

  Figure at_pace(const Fleet& fleet, int64_t workers, double pace, int64_t excess) const {
    return figure_of(job_, workers, least_load(fleet, workers, pace), workers + excess);
  }

  // Returns the most partial sums, beyond one per worker, with which a plan would beat the best plan.
  int64_t excess_allowed(const Fleet& fleet, int64_t workers, double pace) const {
    int64_t allowed = 0, too_many = job_.ests;  // at most as many as ESTs
    while (too_many - allowed > 1) {
      const int64_t middle = allowed + (too_many - allowed) / 2;
      (at_pace(fleet, workers, pace, middle).better_than(best_) ? allowed : too_many) = middle;
    }
    return allowed;
  }

  const PlannedJob& job_;
  std::vector<Fleet> fleets_;
  ExactSplit exact_;
  Figure best_;
  std::vector<WorkerShare> best_split_;
  std::vector<Candidate> open_;
  double left_out_ = std::numeric_limits<double>::infinity();  // a lower bound on the plans not searched
  // Remaining budgets: devices placed by greedy splits, steps of the dynamic program and of the search of mixes.
  int64_t greedy_budget_ = 40'000, exact_budget_ = 2'500'000, mix_budget_ = 200'000;
};

std::string idle_devices(const std::vector<DeviceGroup>& groups, const Plan& plan) {
  int64_t devices = 0;
  for (const DeviceGroup& group : groups) devices += group.count;
  const int64_t idle = devices - std::ssize(plan.workers);
  return idle == 0 ? "" : fmt::format("; {} of {} devices would not make the step shorter", idle, devices);
}

}  // namespace

Plan best_plan(const PlannedJob& job, const std::vector<DeviceGroup>& groups, int64_t most_workers) {
  check_job(job);
  check_groups(groups);
  std::vector<Fleet> fleets;
  for (const std::vector<int64_t>& chosen : mixable(job, groups))
    fleets.emplace_back(groups, chosen, job, most_workers);
  Search search(job, std::move(fleets));
  std::vector<WorkerShare> split = search.run();
  if (split.empty()) throw_no_room(job, groups, most_workers);
  Plan plan = evaluate(job, groups, std::move(split));
  plan.slack = std::max(0.0, 1 - search.proven_bound() / plan.step_seconds);
  if (plan.slack < kEqual) plan.slack = 0;
  plan.reason += idle_devices(groups, plan);
  return plan;
}

}  // namespace estrain::plan
