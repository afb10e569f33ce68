#include <algorithm>
#include <compare>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <queue>

#include "core/base/error.h"
#include "core/plan/exact_split.h"
#include "core/plan/feasibility.h"
#include "core/plan/fleet.h"
#include "core/plan/greedy_split.h"
#include "core/plan/partial_sums.h"
#include "core/plan/plan.h"

namespace estrain::plan {
namespace {

// What plans are compared by. Step times are computed as evaluate does, so that a bound and what it bounds are rounded
// alike: both are sums and products that grow with the pace and the partial sums.
struct Figure {
  double step_seconds = std::numeric_limits<double>::infinity();
  int64_t workers = 0;
  int64_t partial_sums = 0;
  auto operator<=>(const Figure&) const = default;
};

Figure figure_of(const Job& job, int64_t workers, double pace, int64_t partial_sums) {
  return {job.crowding_of(workers) * pace + job.exchange.seconds(workers, partial_sums), workers, partial_sums};
}

// The search. For each set of devices that may work together and each number of workers W the shortest pace is known,
// and every range passes on at least one partial sum, which bounds the step from below. First greedy splits, the lowest
// bound first; then, pace by pace from the shortest, the splits with the fewest partial sums, for as long as a bound is
// below the best plan.
class Search {
 public:
  Search(const Job& job, std::vector<Fleet> fleets) : job_(job), fleets_(std::move(fleets)), exact_(job.ests) {}

  // Empty if there is no plan.
  std::vector<Share> run() {
    try_greedily();
    for (size_t fleet = 0; fleet < fleets_.size(); ++fleet) prove(fleet);
    return best_split_;
  }
  // Seconds that no step is shorter than: those of the plan found, where all others were looked at or ruled out.
  double proven_bound() const { return std::min(best_.step_seconds, left_out_); }

 private:
  // A number of workers that may give the best plan.
  struct Candidate {
    Figure bound;  // with exactly so many workers
    size_t fleet;
    std::optional<double> pace;  // the shortest; nothing while the bound is a rough one
    bool operator>(const Candidate& other) const { return bound > other.bound; }
  };
  static constexpr int kPacesTried = 6;  // by greedy splits, for each candidate

  Figure bound(int64_t workers, double pace) const { return figure_of(job_, workers, pace, workers); }

  void try_greedily() {
    std::priority_queue queue(std::greater<Candidate>(), rough_candidates());
    while (!queue.empty() && queue.top().bound < best_) {
      Candidate next = queue.top();
      queue.pop();
      if (next.pace) {
        open_.push_back(next);
        try_greedily(next);
      } else {
        next.pace = fleets_[next.fleet].shortest_pace(next.bound.workers);
        next.bound = bound(next.bound.workers, *next.pace);
        queue.push(next);
      }
    }
  }

  std::vector<Candidate> rough_candidates() const {
    std::vector<Candidate> all;
    for (size_t i = 0; i < fleets_.size(); ++i) {
      for (int64_t workers = fleets_[i].fewest_workers(); workers <= fleets_[i].most_workers(); ++workers) {
        all.push_back({bound(workers, fleets_[i].pace_bound(workers)), i, std::nullopt});
      }
    }
    return all;
  }

  // A longer pace may be worth it where it lets the cuts be aligned: some between the shortest and the longest that
  // could still be better than the best plan.
  void try_greedily(const Candidate& candidate) {
    place(candidate, *candidate.pace);
    for (int i = 1; i < kPacesTried; ++i) {
      const double longest = longest_pace(candidate.bound.workers);
      if (!(longest > *candidate.pace)) return;
      place(candidate, *candidate.pace + (longest - *candidate.pace) * i / kPacesTried);
    }
  }

  double longest_pace(int64_t workers) const {
    return (best_.step_seconds - job_.exchange.seconds(workers, workers)) / job_.crowding_of(workers);
  }

  void place(const Candidate& candidate, double pace) {
    const int64_t workers = candidate.bound.workers;
    // The first plan is made at any price: without one there is nothing to compare with.
    if (greedy_budget_ < workers && !best_split_.empty()) return;
    greedy_budget_ -= workers;
    const Fleet& fleet = fleets_[candidate.fleet];
    take(fleet, greedy_split(job_.ests, workers, fleet.capacities(pace)));
  }

  void take(const Fleet& fleet, std::vector<Share> split) {
    const Figure figure =
        figure_of(job_, std::ssize(split), fleet.pace_of(split), partial_sums_of(job_.ests, split, &Share::ests));
    if (figure >= best_) return;
    best_ = figure;
    best_split_ = std::move(split);
  }

  // Tries the candidates of a fleet at pace after pace, until none is left that could be better.
  void prove(size_t fleet) {
    std::vector<Candidate> open;
    std::ranges::copy_if(open_, std::back_inserter(open), [&](const Candidate& each) { return each.fleet == fleet; });
    std::ranges::sort(open, {}, &Candidate::pace);
    std::optional<double> pace = 0;
    while (pace) {
      std::erase_if(
          open, [&](const Candidate& each) { return bound(each.bound.workers, std::max(*pace, *each.pace)) >= best_; });
      if (open.empty()) return;
      pace = std::max(*pace, *open.front().pace);
      if (!try_exactly(fleets_[fleet], open, *pace)) return leave_out(open, *pace);
      pace = fleets_[fleet].next_pace(*pace);
    }
  }

  // The budget does not reach to these candidates at this pace and longer ones.
  void leave_out(const std::vector<Candidate>& open, double pace) {
    for (const Candidate& each : open) {
      left_out_ = std::min(left_out_, bound(each.bound.workers, std::max(pace, *each.pace)).step_seconds);
    }
  }

  // All splits at a pace, of the candidates that it is long enough for. False: they are too many for the budget.
  bool try_exactly(const Fleet& fleet, const std::vector<Candidate>& open, double pace) {
    ExactSplit::Limits limits;
    const auto in_reach = std::ranges::upper_bound(open, pace, {}, [](const Candidate& each) { return *each.pace; });
    for (auto each = open.begin(); each != in_reach; ++each) {
      limits.workers = std::max(limits.workers, each->bound.workers);
      limits.excess = std::max(limits.excess, excess_allowed(each->bound.workers, pace));
    }
    if (!exact_.run(fleet.capacities(pace), limits, exact_budget_)) return false;
    for (auto each = open.begin(); each != in_reach; ++each) {
      const int64_t workers = each->bound.workers, excess = exact_.excess(workers);
      if (excess < 0 || figure_of(job_, workers, pace, workers + excess) >= best_) continue;
      take(fleet, exact_.split(workers));
    }
    return true;
  }

  // The most partial sums beyond one for each worker with which a plan would be better than the best.
  int64_t excess_allowed(int64_t workers, double pace) const {
    int64_t allowed = 0, too_many = job_.ests;  // there are no more than ESTs in all
    while (too_many - allowed > 1) {
      const int64_t middle = allowed + (too_many - allowed) / 2;
      (figure_of(job_, workers, pace, workers + middle) < best_ ? allowed : too_many) = middle;
    }
    return allowed;
  }

  const Job& job_;
  std::vector<Fleet> fleets_;
  ExactSplit exact_;
  Figure best_;
  std::vector<Share> best_split_;
  std::vector<Candidate> open_;
  double left_out_ = std::numeric_limits<double>::infinity();  // a bound on the steps that were not looked at
  // What may still be done: devices placed by greedy splits, and steps of the dynamic program.
  int64_t greedy_budget_ = 40'000, exact_budget_ = 2'500'000;
};

std::string idle_devices(const std::vector<DeviceGroup>& groups, const Plan& plan) {
  int64_t devices = 0;
  for (const DeviceGroup& group : groups) devices += group.count;
  const int64_t idle = devices - std::ssize(plan.workers);
  return idle == 0 ? "" : fmt::format("; {} of {} devices would not make the step shorter", idle, devices);
}

}  // namespace

Plan best_plan(const Job& job, const std::vector<DeviceGroup>& groups, int64_t most_workers) {
  check_job(job);
  check_groups(groups);
  std::vector<Fleet> fleets;
  for (const std::vector<int64_t>& chosen : mixable(job, groups))
    fleets.emplace_back(groups, chosen, job, most_workers);
  Search search(job, std::move(fleets));
  std::vector<Share> split = search.run();
  if (split.empty()) throw_no_room(job, groups, most_workers);
  Plan plan = evaluate(job, groups, std::move(split));
  plan.slack = std::max(0.0, 1 - search.proven_bound() / plan.step_seconds);
  plan.reason += idle_devices(groups, plan);
  return plan;
}

}  // namespace estrain::plan
