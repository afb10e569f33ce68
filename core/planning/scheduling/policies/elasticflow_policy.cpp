// Deadlines first. Jobs chosen to meet their deadlines get their smallest satisfying shares (deadline_plan.h). The
// remaining devices go where a doubling brings most speed per device: for the chosen, then the rest, shortest first.
//
// ElasticFlow decides in slots and admits a job on arrival, if all jobs admitted before still meet their deadlines.
// ElasticFlow drops a job that is not admitted; here the job runs on the remaining devices. Ours acts at once and
// reconsiders each time: where not all can meet their deadlines, the job with most device-seconds gives way (Moore and
// Hodgson's rule for one machine, with areas for lengths), and is taken up again when it fits.
#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "core/base/error.h"
#include "core/planning/scheduling/policies/deadline_plan.h"
#include "core/planning/scheduling/policies/place_counts.h"
#include "core/planning/scheduling/policies/policies.h"

namespace estrain::scheduling {
namespace {

// The jobs chosen to meet their deadlines.
using Chosen = std::vector<size_t>;

std::vector<size_t> by_deadline(const View& view) {
  std::vector<size_t> order;
  for (size_t i = 0; i < view.jobs.size(); ++i) {
    if (view.jobs[i]->deadline && *view.jobs[i]->deadline > view.now) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return *view.jobs[i]->deadline; });
  return order;
}

// Devices for every job: the plan's devices, then the devices that doublings bring.
class Doublings {
 public:
  Doublings(const View& view, const DeadlinePlan& plan) : view_(view), counts_(view.jobs.size()) {
    free_ = view.cluster.devices();
    for (size_t i = 0; i < counts_.size(); ++i) free_ -= counts_[i] = plan.now(i);
  }

  void grow(const std::vector<size_t>& jobs) {
    for (const size_t i : jobs) propose(i);
    while (!steps_.empty()) {
      const Step step = steps_.top();
      steps_.pop();
      if (step.more > free_) continue;
      counts_[step.job] += step.more;
      free_ -= step.more;
      propose(step.job);
    }
  }

  // Gives each job its requested number, or the largest power of two left.
  void fill(const std::vector<size_t>& jobs) {
    for (const size_t i : jobs) {
      const JobView& job = *view_.jobs[i];
      counts_[i] = power_of_two_below(std::min({free_, job.requested, job.most}));
      free_ -= counts_[i];
    }
  }

  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  struct Step {
    double gain;
    int64_t more;
    size_t job;
    bool operator<(const Step& other) const { return gain != other.gain ? gain < other.gain : job > other.job; }
  };

  double speed(const JobView& job, int64_t devices) const {
    return 1 / job.outlook->seconds_left(packed(view_.cluster, job.type, devices));
  }

  void propose(size_t i) {
    const JobView& job = *view_.jobs[i];
    const int64_t has = counts_[i], more = std::max<int64_t>(1, has);
    if (has + more > job.most) return;
    const double before = has == 0 ? 0 : speed(job, has), after = speed(job, has + more);
    // In units of the job's own speed on one device, to make long and short jobs comparable.
    if (after > before) steps_.push({(after - before) / speed(job, 1) / static_cast<double>(more), more, i});
  }

  const View& view_;
  std::vector<int64_t> counts_;
  int64_t free_ = 0;
  std::priority_queue<Step> steps_;
};

class Elasticflow : public Policy {
 public:
  explicit Elasticflow(const ElasticflowOptions& options) : options_(options) {}

  bool at_events() const override { return options_.reconsiders; }

  bool knows_types() const override { return false; }

  Decision decide(const View& view) override {
    if (view.cluster.types().size() > 1)
      throw Error(Fault::infeasible, "policies for deadlines know clusters with devices of one type only");
    DeadlinePlan plan(view, view.round);
    const Chosen chosen = options_.reconsiders ? choose_most(view, plan) : choose_admitted(view, plan);
    std::vector<bool> is_chosen(view.jobs.size());
    for (const size_t i : chosen) is_chosen[i] = true;
    std::vector<size_t> others;
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      if (!is_chosen[i]) others.push_back(i);
    }
    std::ranges::stable_sort(others, {}, [&](size_t i) {
      const JobView& job = *view.jobs[i];
      return job.outlook->seconds_left(packed(view.cluster, 0, job.requested));
    });
    Doublings doublings(view, plan);
    doublings.grow(chosen);
    doublings.fill(others);
    return place(view, doublings.counts(), is_chosen);
  }

 private:
  // Admits jobs in order of arrival, each for good.
  Chosen choose_admitted(const View& view, DeadlinePlan& plan) {
    std::set<int64_t> there;
    for (const JobView* job : view.jobs) there.insert(job->order);
    std::erase_if(admitted_, [&](const auto& job) { return !there.contains(job.first); });
    const std::vector<size_t> order = by_deadline(view);
    std::vector<size_t> fresh;
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      if (!admitted_.contains(view.jobs[i]->order)) fresh.push_back(i);
    }
    for (const size_t i : fresh) {
      const bool has_time = std::ranges::find(order, i) != order.end();
      admitted_[view.jobs[i]->order] = has_time && all_fit(view, order, i);
    }
    Chosen chosen;
    for (const size_t i : order) {
      if (admitted_[view.jobs[i]->order] && plan.add(i)) chosen.push_back(i);
    }
    return chosen;
  }

  // Returns whether the newcomer meets its deadline and makes no admitted job miss a deadline met without it.
  bool all_fit(const View& view, const std::vector<size_t>& order, size_t newcomer) {
    DeadlinePlan without(view, view.round), with(view, view.round);
    for (const size_t i : order) {
      if (i != newcomer && !admitted_[view.jobs[i]->order]) continue;
      const bool should = i == newcomer || without.add(i);
      if (!with.add(i) && should) return false;
    }
    return true;
  }

  static Chosen choose_most(const View& view, DeadlinePlan& plan) {
    Chosen chosen;
    for (const size_t i : by_deadline(view)) {
      if (plan.add(i)) {
        chosen.push_back(i);
        continue;
      }
      DeadlinePlan alone(view, view.round);
      if (!alone.add(i) || chosen.empty()) continue;
      const auto largest = std::ranges::max_element(chosen, {}, [&](size_t other) { return plan.area(other); });
      if (plan.area(*largest) <= alone.area(i)) continue;
      const size_t given_up = *largest;
      plan.remove(given_up);
      if (plan.add(i)) {
        *largest = i;
      } else {
        plan.add(given_up);
      }
    }
    return chosen;
  }

  static Decision place(const View& view, const std::vector<int64_t>& counts, const std::vector<bool>& is_chosen) {
    Decision decision(view.jobs.size());
    decision.placements = place_counts(view, counts);
    for (size_t i = 0; i < counts.size(); ++i) {
      decision.reasons[i] = counts[i] == 0 ? "waits for jobs that can meet their deadlines"
                            : is_chosen[i] ? "has what its deadline asks for, and what is left"
                                           : "has what jobs with deadlines leave";
    }
    return decision;
  }

  ElasticflowOptions options_;
  std::map<int64_t, bool> admitted_;  // by JobView::order
};

}  // namespace

std::unique_ptr<Policy> make_elasticflow(const ElasticflowOptions& options) {
  return std::make_unique<Elasticflow>(options);
}

}  // namespace estrain::scheduling
