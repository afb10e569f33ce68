// ONES (SC'21): an evolution of schedules (evolution.h) towards the smallest remaining utilisation, the sum over
// running jobs of remaining time x devices (SRUF). How far a job is, is not known: in each round its progress is drawn
// from Beta(epochs done, epochs to come), and its remaining time follows (section 3.2.1). Epochs to come are what the
// outlook says: of real jobs with an early stop, as learnt from jobs that have ended (progress_model.h).
//
// Batches are a matter of devices here: a job on so many devices runs at the best batch for this number, so the limits
// on batches (section 3.3.2) are limits on devices: one device at the start, twice as many after each epoch, fewer for
// jobs with a long run, half as many for a job that waits on.
//
// Different from the paper: where the outlook of a real job is learnt, a job takes as long as expected, unless the
// option belief says otherwise, since with few jobs to learn from a draw is far off. A change counts with its charge,
// instead of waiting until each job has finished an epoch (the paper's changes cost next to nothing); and devices that
// all limits leave idle are given out beyond the limits.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/planning/scheduling/policies/evolution.h"
#include "core/planning/scheduling/policies/place_counts.h"
#include "core/planning/scheduling/policies/policies.h"

namespace estrain::scheduling {
namespace {

// Draws from Beta(a, b), by two gamma variates (Marsaglia and Tsang's method).
double draw_gamma(double shape, std::mt19937_64& random) {
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  const auto unit = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  while (true) {
    const double x = std::sqrt(-2 * std::log(unit())) * std::cos(6.283185307179586 * unit());
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(unit()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double draw_beta(double alpha, double beta, std::mt19937_64& random) {
  const double one = draw_gamma(alpha, random), other = draw_gamma(beta, random);
  return one / (one + other);
}

// Returns the factor by which a job takes longer than its outlook says, drawn from the distribution of its progress.
double times_longer(const Outlook::Epochs& epochs, std::mt19937_64& random) {
  if (epochs.to_come <= 0) return 1;
  const double alpha = std::max(1.0, epochs.confidence * epochs.done);
  const double beta = std::max(1.0, epochs.confidence * epochs.to_come);
  const double drawn = std::clamp(draw_beta(alpha, beta, random), 1e-3, 1 - 1e-3);
  return (1 / drawn - 1) * alpha / beta;
}

struct Limit {
  int64_t devices = 1;
  double epochs = 0;  // done when the limit was raised last
  bool ran = false;
  double longer = 1;     // how many times longer the job takes than the outlook says, as drawn
  double drawn_at = -1;  // epochs done
};

class OnesRound {
 public:
  OnesRound(const View& view, const OnesOptions& options, std::vector<int64_t> limits, std::vector<double> longer,
            std::mt19937_64& random)
      : view_(view), options_(options), random_(random), longer_(std::move(longer)), known_(view.jobs.size()) {
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const JobView& job = *view.jobs[i];
      most_.push_back(std::min(job.most, view.cluster.devices()));
      held_.push_back(devices_of(job.placement));
      jobs_.limits.push_back(std::min(limits[i], most_.back()));
      jobs_.is_new.push_back(job.starts == 0);
      jobs_.held_seconds.push_back(job.held);
    }
    jobs_.added = [this](size_t job, int64_t devices) {
      return utilisation(job, devices + 1) - (devices == 0 ? 0 : utilisation(job, devices));
    };
  }

  std::vector<Schedule> run(std::vector<Schedule> population) {
    const auto wanted = static_cast<size_t>(options_.population);
    population.push_back(present());
    for (int generation = 0; generation < static_cast<int>(options_.generations); ++generation) {
      for (Schedule& schedule : population) refresh(schedule, jobs_);
      const size_t parents = population.size();
      const auto any = [&] { return static_cast<size_t>(random_() % parents); };
      for (size_t k = 0; k < wanted / 2; ++k) {
        auto [first, second] = crossed(population[any()], population[any()], random_);
        population.push_back(std::move(first));
        population.push_back(std::move(second));
      }
      for (size_t k = 0; k < wanted; ++k) {
        population.push_back(population[any()]);
        mutate(population.back(), jobs_, options_.rate, random_);
      }
      for (size_t k = parents; k < population.size(); ++k) refresh(population[k], jobs_), reorder(population[k]);
      select(population, wanted);
    }
    return population;
  }

  // Gives devices that all limits leave idle out beyond the limits.
  std::vector<int64_t> counts_of(Schedule best) {
    jobs_.limits = most_;
    fill(best, jobs_);
    return devices_by_job(best, view_.jobs.size());
  }

 private:
  double utilisation(size_t i, int64_t devices) {
    std::vector<double>& known = known_[i];
    if (known.empty()) known.assign(static_cast<size_t>(most_[i]) + 1, -1);
    double& value = known[static_cast<size_t>(devices)];
    if (value < 0) {
      const JobView& job = *view_.jobs[i];
      const double left = job.outlook->seconds_left(packed(view_.cluster, job.type, devices));
      const double change = devices == held_[i] ? 0 : options_.patience * view_.charge;
      value = (left * longer_[i] + change) * static_cast<double>(devices);
    }
    return value;
  }

  Schedule present() const {
    Schedule schedule;
    for (size_t i = 0; i < held_.size(); ++i)
      schedule.insert(schedule.end(), static_cast<size_t>(held_[i]), static_cast<int32_t>(i));
    schedule.resize(static_cast<size_t>(view_.cluster.devices()), kIdle);
    return schedule;
  }

  double score(const Schedule& schedule) {
    const std::vector<int64_t> counts = devices_by_job(schedule, view_.jobs.size());
    double sum = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) sum += utilisation(i, counts[i]);
    }
    return sum;
  }

  void select(std::vector<Schedule>& population, size_t wanted) {
    std::vector<std::pair<double, size_t>> scores;
    for (size_t k = 0; k < population.size(); ++k) scores.emplace_back(score(population[k]), k);
    std::ranges::sort(scores);
    std::vector<Schedule> best;
    for (const auto& [value, k] : scores) {
      if (best.size() == wanted) break;
      if (std::ranges::find(best, population[k]) == best.end()) best.push_back(population[k]);
    }
    population = std::move(best);
  }

  const View& view_;
  const OnesOptions& options_;
  std::mt19937_64& random_;
  Evolving jobs_;
  std::vector<int64_t> most_, held_;
  std::vector<double> longer_;
  std::vector<std::vector<double>> known_;  // [job][devices], computed on demand
};

class Ones : public Policy {
 public:
  Ones(const OnesOptions& options, uint64_t seed) : options_(options), random_(seed) {}

  bool knows_types() const override { return false; }

  Decision decide(const View& view) override {
    if (view.cluster.types().size() > 1)
      throw Error(Fault::infeasible, "policy ones knows clusters with devices of one type only");
    std::vector<double> longer;
    const std::vector<int64_t> most = limits(view, longer);
    OnesRound round(view, options_, most, std::move(longer), random_);
    std::vector<Schedule> population = round.run(adapted(view));
    const std::vector<int64_t> counts = round.counts_of(population.front());
    orders_.clear();
    for (const JobView* job : view.jobs) orders_.push_back(job->order);
    population_ = std::move(population);
    return place(view, counts);
  }

 private:
  std::vector<int64_t> limits(const View& view, std::vector<double>& longer) {
    if (!first_) first_ = view.now;
    std::map<int64_t, Limit> kept;
    std::vector<int64_t> limits;
    for (const JobView* job : view.jobs) {
      const auto before = limits_.find(job->order);
      if (before == limits_.end()) ++arrived_;
      Limit limit = before == limits_.end() ? Limit{} : before->second;
      const double done = job->outlook->epochs().done;
      const bool runs = !job->placement.empty();
      if (runs && done >= limit.epochs + 1) {
        limit.devices = std::min(limit.devices * 2, job->most);
        limit.epochs = std::floor(done);
      } else if (!runs && limit.ran) {
        limit.devices = std::max<int64_t>(1, limit.devices / 2);  // the job did not take the devices
      }
      limit.ran = runs;
      // Drawn anew when an epoch has told more: bad luck alone is to change no schedule.
      if (done != limit.drawn_at) {
        limit.longer = times_longer(job->outlook->epochs(), random_);
        limit.drawn_at = done;
      }
      longer.push_back(takes_expected_end(*job) ? 1 : limit.longer);
      limits.push_back(limited_by_age(*job, limit.devices, view.now));
      kept[job->order] = limit;
    }
    limits_ = std::move(kept);
    return limits;
  }

  bool takes_expected_end(const JobView& job) const {
    using enum OnesOptions::Belief;
    return options_.belief == by_outlook ? job.outlook->epochs().is_learnt : options_.belief == expected;
  }

  // Keeps convoys from forming behind jobs with a long run.
  int64_t limited_by_age(const JobView& job, int64_t devices, double now) const {
    const double rate = static_cast<double>(arrived_) / std::max(now - *first_, 60.0);
    const double parts = std::ceil(options_.age * rate * job.held + 1);
    return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(2 * static_cast<double>(devices) / parts)), 1, devices);
  }

  // Returns the last population: the devices of ended jobs are idle.
  std::vector<Schedule> adapted(const View& view) const {
    std::map<int64_t, int32_t> now;
    for (size_t i = 0; i < view.jobs.size(); ++i) now[view.jobs[i]->order] = static_cast<int32_t>(i);
    std::vector<Schedule> all = population_;
    std::erase_if(
        all, [&](const Schedule& schedule) { return schedule.size() != static_cast<size_t>(view.cluster.devices()); });
    for (Schedule& schedule : all) {
      for (int32_t& device : schedule) {
        if (device == kIdle) continue;
        const auto at = now.find(orders_[static_cast<size_t>(device)]);
        device = at == now.end() ? kIdle : at->second;
      }
    }
    return all;
  }

  static Decision place(const View& view, const std::vector<int64_t>& counts) {
    Decision decision(view.jobs.size());
    decision.placements = place_counts(view, counts);
    for (size_t i = 0; i < counts.size(); ++i) {
      decision.reasons[i] = counts[i] > 0 ? "part of the schedule with least utilisation to come"
                                          : "waits: the schedule with least utilisation to come has no place for it";
    }
    return decision;
  }

  OnesOptions options_;
  std::mt19937_64 random_;
  std::map<int64_t, Limit> limits_;  // by JobView::order
  std::optional<double> first_;
  int64_t arrived_ = 0;
  std::vector<int64_t> orders_;
  std::vector<Schedule> population_;
};

}  // namespace

std::unique_ptr<Policy> make_ones(const OnesOptions& options, uint64_t seed) {
  return std::make_unique<Ones>(options, seed);
}

}  // namespace estrain::scheduling
