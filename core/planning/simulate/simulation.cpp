#include "core/planning/simulate/simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "core/base/error.h"

namespace estrain::simulate {
namespace {

// Tells for each job why the job waits for its first devices, from decision to decision.
class Queueing {
 public:
  explicit Queueing(const Workload& workload) : of_job_(workload.jobs.size()) {
    has_quotas_ = std::ranges::any_of(workload.jobs, [](const auto& job) { return job->facts.quota > 0; });
  }

  bool has_quotas() const { return has_quotas_; }

  void pass(const std::vector<SimulatedJob*>& active, double seconds) {
    if (!has_quotas_) return;
    for (const SimulatedJob* job : active) {
      if (job->facts.started) continue;
      OfJob& one = of_job_[static_cast<size_t>(job->facts.order)];
      (one.is_above_quota ? one.waits.fair_share : one.waits.fragmentation) += seconds;
    }
  }

  // After a decision at this moment; `active`: in order of submission.
  void decided(const std::vector<SimulatedJob*>& active, double now) {
    if (!has_quotas_) return;
    std::map<std::string_view, int64_t> in_use;
    std::set<std::string_view> waits;  // owners with a job that came earlier
    for (const SimulatedJob* job : active) in_use[job->facts.owner] += scheduling::devices_of(job->facts.placement);
    for (const SimulatedJob* job : active) {
      const scheduling::JobView& facts = job->facts;
      OfJob& one = of_job_[static_cast<size_t>(facts.order)];
      if (!facts.started) {
        one.is_above_quota = in_use[facts.owner] + facts.requested > facts.quota;
        waits.insert(facts.owner);
      } else if (*facts.started == now && waits.contains(facts.owner)) {
        one.is_out_of_order = true;
      }
    }
  }

  void write(JobResult& result, const scheduling::JobView& job) const {
    const OfJob& one = of_job_[static_cast<size_t>(job.order)];
    result.waits = one.waits;
    result.is_out_of_order = one.is_out_of_order;
  }

 private:
  struct OfJob {
    WaitsByCause waits = {};
    bool is_above_quota = false, is_out_of_order = false;
  };

  bool has_quotas_ = false;
  std::vector<OfJob> of_job_;  // by JobView::order
};

class Simulation {
 public:
  Simulation(Workload workload, const scheduling::PolicyChoice& choice, const Limits& limits)
      : workload_(std::move(workload)),
        policy_(*choice.policy),
        limits_(limits),
        clock_(workload_.begin),
        queueing_(workload_) {
    result_.policy = choice.text;
    result_.workload = workload_.name;
    result_.charge = workload_.charge;
    result_.begin = workload_.begin;
    result_.devices = workload_.cluster->devices();
    result_.has_quotas = queueing_.has_quotas();
    check_order();
  }

  SimulationResult run() {
    while (next_ < workload_.jobs.size() || !active_.empty()) {
      skip_idle_time();
      const double until = end_of_round();
      for (SimulatedJob* job : active_) job->run(clock_, until - clock_);
      count_devices(until);
      queueing_.pass(active_, until - clock_);
      clock_ = until;
      drop_finished();
      admit();
      if (!active_.empty()) decide();
    }
    finish();
    return std::move(result_);
  }

 private:
  void check_order() const {
    const auto submitted = [](const auto& job) { return job->facts.submitted; };
    if (std::ranges::is_sorted(workload_.jobs, {}, submitted)) return;
    throw Error(Fault::bug, "the jobs of a workload are not in order of submission");
  }

  bool at_events() const { return workload_.at_events && policy_.at_events(); }

  // The clock at the next decision.
  double end_of_round() const {
    if (!at_events()) return clock_ + workload_.round;
    // Until the next job comes, the policy has no jobs to decide about.
    const bool has_rounds = workload_.rounds_too && !active_.empty();
    double until = has_rounds ? clock_ + workload_.round : std::numeric_limits<double>::infinity();
    if (next_ < workload_.jobs.size())
      until = std::min(until, std::max(clock_, workload_.jobs[next_]->facts.submitted));
    for (const SimulatedJob* job : active_) {
      // Slightly late rather than early: rounding must not leave a job with nothing to do.
      until = std::min(until, clock_ + job->seconds_to_end() * (1 + 1e-12) + 1e-9);
    }
    return until < std::numeric_limits<double>::infinity() ? until : clock_ + workload_.round;
  }

  void skip_idle_time() {
    if (!active_.empty() || at_events()) return;
    const double submitted = workload_.jobs[next_]->facts.submitted;
    const double rounds = std::ceil((submitted - clock_) / workload_.round) - 1;
    if (rounds > 0) clock_ += rounds * workload_.round;
  }

  void count_devices(double end) {
    for (const SimulatedJob* job : active_) {
      if (job->facts.placement.empty()) continue;
      const double until = job->finished.value_or(end);
      result_.device_seconds += (until - clock_) * job->devices_in_use();
    }
  }

  void drop_finished() {
    for (SimulatedJob* job : active_) {
      if (!job->finished) continue;
      if (limits_.keep_stretches) end_stretch(job->facts, *job->finished);
      if (workload_.shared) job->place({});
    }
    std::erase_if(active_, [&](const SimulatedJob* job) { return job->finished.has_value(); });
  }

  void admit() {
    for (; next_ < workload_.jobs.size() && workload_.jobs[next_]->facts.submitted <= clock_; ++next_) {
      SimulatedJob* job = workload_.jobs[next_].get();
      const auto order = [](const SimulatedJob* other) { return other->facts.order; };
      active_.insert(std::ranges::upper_bound(active_, job->facts.order, {}, order), job);
    }
  }

  void decide() {
    views_.clear();
    for (const SimulatedJob* job : active_) views_.push_back(&job->facts);
    const scheduling::View view{*workload_.cluster, views_, clock_, workload_.round, workload_.charge};
    place(policy_.decide(view).placements);
    queueing_.decided(active_, clock_);
  }

  void place(const std::vector<scheduling::Placement>& after) {
    ++result_.rounds;
    check(after);
    bool any_runs = false;
    for (size_t i = 0; i < active_.size(); ++i) {
      any_runs |= !after[i].empty();
      if (after[i] == active_[i]->facts.placement) continue;
      if (limits_.keep_stretches) end_stretch(active_[i]->facts, clock_);
      active_[i]->place(after[i]);
      if (!after[i].empty()) {
        ++active_[i]->facts.starts;
        if (!active_[i]->facts.started) active_[i]->facts.started = clock_;
        if (limits_.keep_stretches) begin_stretch(active_[i]->facts);
      }
    }
    idle_rounds_ = any_runs ? 0 : idle_rounds_ + 1;
    if (idle_rounds_ > limits_.idle_rounds) {
      throw Error::make(Fault::infeasible, "policy {}, workload {}: {} jobs have waited and none has run for {} rounds",
                        result_.policy, workload_.name, active_.size(), idle_rounds_);
    }
  }

  // Throws if the policy gave out more devices than a host has.
  void check(const std::vector<scheduling::Placement>& placements) {
    scheduling::FreeDevices free(*workload_.cluster), gaps(*workload_.cluster);
    const bool shares = workload_.shared != nullptr;
    for (size_t i = 0; i < placements.size(); ++i)
      (shares && active_[i]->facts.is_background ? gaps : free).take(placements[i]);
  }

  void begin_stretch(const scheduling::JobView& job) {
    result_.stretches.push_back(
        {static_cast<size_t>(job.order), clock_, clock_, scheduling::devices_of(job.placement)});
    if (open_.size() < workload_.jobs.size()) open_.assign(workload_.jobs.size(), kNone);
    open_[static_cast<size_t>(job.order)] = result_.stretches.size() - 1;
  }
  void end_stretch(const scheduling::JobView& job, double at) {
    const auto order = static_cast<size_t>(job.order);
    if (order >= open_.size() || open_[order] == kNone) return;
    result_.stretches[open_[order]].to = at;
    open_[order] = kNone;
  }

  void finish() {
    for (const auto& job : workload_.jobs) {
      const scheduling::JobView& facts = job->facts;
      result_.jobs.push_back({facts.name, facts.submitted, facts.started.value_or(*job->finished), *job->finished,
                              facts.starts, facts.deadline, facts.requested});
      queueing_.write(result_.jobs.back(), facts);
      result_.end = std::max(result_.end, *job->finished);
    }
    if (workload_.whole_rounds) result_.end = clock_ - workload_.round;
  }

  static constexpr size_t kNone = ~size_t{0};

  Workload workload_;
  scheduling::Policy& policy_;
  Limits limits_;
  double clock_;
  size_t next_ = 0;  // next job to submit
  std::vector<SimulatedJob*> active_;
  std::vector<const scheduling::JobView*> views_;
  Queueing queueing_;
  int64_t idle_rounds_ = 0;
  std::vector<size_t> open_;
  SimulationResult result_;
};

}  // namespace

SimulationResult simulate(Workload workload, const scheduling::PolicyChoice& choice, uint64_t seed,
                          const Limits& limits) {
  SimulationResult result = Simulation(std::move(workload), choice, limits).run();
  result.seed = seed;
  return result;
}

}  // namespace estrain::simulate
