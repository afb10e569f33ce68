// Pollux (OSDI'21, section 4.2): a genetic search for the placement of all jobs with the best mean of their speed-ups.
//
// A state gives the number of devices of each job on each host. The mean is the harmonic mean of speed-ups over a fair
// share on one host, where a job whose row changes is weighted down by its past cost of restarts. Rows are mixed by
// cutting two states at a job, and mutated at random. Then states are repaired: no more devices than exist, or than a
// job may have, and on each host at most one job that spans hosts. The best of parents and children survive, so the
// best state is never lost. (The paper's search, NSGA-II, also keeps states of high utilisation; NSGA-II chooses the
// best state by this mean.)
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/base/error.h"
#include "core/planning/scheduling/policies/policies.h"

namespace estrain::scheduling {
namespace {

// Random numbers from a seed, the same on every machine.
class GeneDice {
 public:
  explicit GeneDice(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567u) {}
  uint32_t below(size_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(((state_ >> 32) * bound) >> 32);
  }

 private:
  uint64_t state_;
};

constexpr double kRestartSeconds = 30, kLeastSpeedUp = 1e-3, kSpeedUpScale = 4;

struct Genes {
  std::vector<uint8_t> devices;  // [job][host]
  std::vector<double> costs;     // for each job: 1 / (its speed-up); the sum is minimised
  double cost = 0;
};

class GeneSearch {
 public:
  GeneSearch(const View& view, const PolluxOptions& options, GeneDice& dice)
      : view_(view), options_(options), dice_(dice), jobs_(view.jobs.size()), hosts_(view.cluster.hosts().size()) {
    for (const Host& host : view.cluster.hosts()) capacity_.push_back(static_cast<int32_t>(host.devices));
    const int64_t fair = (view.cluster.devices() + static_cast<int64_t>(jobs_) - 1) / static_cast<int64_t>(jobs_);
    for (const JobView* job : view.jobs) {
      add_limits(*job, fair);
      base_.resize(base_.size() + hosts_, 0);
      for (const DevicesOnHost& share : job->placement) {
        base_[base_.size() - hosts_ + static_cast<size_t>(share.host)] = static_cast<uint8_t>(share.devices);
      }
    }
  }

  // Returns the last population, best first.
  std::vector<Genes> run(std::vector<Genes> population) {
    const auto wanted = static_cast<size_t>(options_.population);
    population.push_back({base_, {}, 0});
    for (Genes& genes : population) complete(genes);
    while (population.size() < wanted) {
      population.push_back(population[dice_.below(population.size())]);
      mutate(population.back());
    }
    for (int generation = 0; generation < static_cast<int>(options_.generations); ++generation) {
      for (size_t child = 0; child < wanted; ++child) {
        population.push_back(crossed(population[pick(wanted)], population[pick(wanted)]));
        mutate(population.back());
      }
      std::ranges::stable_sort(population, {}, &Genes::cost);
      const auto have_same_devices = [](const Genes& a, const Genes& b) { return a.devices == b.devices; };
      population.erase(std::unique(population.begin(), population.end(), have_same_devices), population.end());
      while (population.size() < wanted) {
        population.push_back(population[dice_.below(population.size())]);
        mutate(population.back());
      }
      population.resize(wanted);
    }
    std::ranges::stable_sort(population, {}, &Genes::cost);
    return population;
  }

 private:
  void add_limits(const JobView& job, int64_t fair) {
    limits_.push_back(1);
    for (int64_t r = 1; r <= std::min(job.most, view_.cluster.devices()); ++r) {
      if (std::isfinite(job.outlook->seconds_left(packed(view_.cluster, 0, r)))) limits_.back() = r;
    }
    const int64_t known = std::min(fair, limits_.back());
    Shape shape = packed(view_.cluster, 0, known);
    shape.hosts[0] = 1;
    fair_.push_back(job.outlook->seconds_left(shape) * static_cast<double>(known) / static_cast<double>(fair));
    const double age = view_.now - job.submitted;
    const auto restarts = static_cast<double>(std::max<int64_t>(job.starts - 1, 0));
    discounts_.push_back(std::max(age - kRestartSeconds * restarts, 0.0) / (age + kRestartSeconds));
    speed_ups_.emplace_back();
  }

  // A parent: the better of two.
  size_t pick(size_t wanted) { return std::min(dice_.below(wanted), dice_.below(wanted)); }

  Genes crossed(const Genes& one, const Genes& other) {
    Genes child = one;
    const size_t cut = dice_.below(jobs_ + 1);
    std::copy(other.devices.begin() + static_cast<std::ptrdiff_t>(cut * hosts_), other.devices.end(),
              child.devices.begin() + static_cast<std::ptrdiff_t>(cut * hosts_));
    std::copy(other.costs.begin() + static_cast<std::ptrdiff_t>(cut), other.costs.end(),
              child.costs.begin() + static_cast<std::ptrdiff_t>(cut));
    return child;
  }

  uint8_t* row(Genes& genes, size_t job) const { return genes.devices.data() + job * hosts_; }

  void mutate(Genes& genes) {
    for (uint32_t changes = 1 + dice_.below(3); changes > 0; --changes) {
      const size_t job = dice_.below(jobs_), host = dice_.below(hosts_);
      uint8_t* devices = row(genes, job);
      // In half of the cases the job moves to this host alone; otherwise the number on this host changes.
      if (dice_.below(2) == 0) std::fill(devices, devices + hosts_, uint8_t{0});
      devices[host] = static_cast<uint8_t>(dice_.below(static_cast<size_t>(capacity_[host]) + 1));
      genes.costs[job] = -1;
    }
    complete(genes);
  }

  // Repairs the state and computes its costs.
  void complete(Genes& genes) {
    if (genes.costs.size() != jobs_) genes.costs.assign(jobs_, -1);
    spans_.assign(jobs_, 0);
    for (size_t job = 0; job < jobs_; ++job) {
      uint8_t* devices = row(genes, job);
      int64_t all = 0;
      for (size_t host = 0; host < hosts_; ++host) all += devices[host], spans_[job] += devices[host] > 0 ? 1 : 0;
      while (all > limits_[job]) {
        const size_t host = dice_.below(hosts_);
        if (devices[host] == 0) continue;
        spans_[job] -= --devices[host] == 0 ? 1 : 0;
        --all;
        genes.costs[job] = -1;
      }
    }
    const size_t first = dice_.below(jobs_);  // the first job to serve, at random
    for (size_t host = 0; host < hosts_; ++host) {
      int32_t left = capacity_[host];
      bool spanned = false;
      for (size_t k = 0, job = first; k < jobs_; ++k, job = job + 1 == jobs_ ? 0 : job + 1) {
        uint8_t& devices = row(genes, job)[host];
        if (devices == 0) continue;
        const bool spans = spans_[job] > 1;
        const auto allowed = static_cast<uint8_t>(spans && spanned ? 0 : std::min<int32_t>(devices, left));
        if (allowed != devices) {
          spans_[job] -= allowed == 0 ? 1 : 0;
          devices = allowed;
          genes.costs[job] = -1;
        }
        spanned |= spans && allowed > 0;
        left -= allowed;
      }
    }
    genes.cost = 0;
    for (size_t job = 0; job < jobs_; ++job) {
      if (genes.costs[job] < 0) genes.costs[job] = cost_of(genes, job);
      genes.cost += genes.costs[job];
    }
  }

  double cost_of(Genes& genes, size_t job) {
    const uint8_t* devices = row(genes, job);
    uint32_t all = 0, hosts = 0;
    for (size_t host = 0; host < hosts_; ++host) all += devices[host], hosts += devices[host] > 0 ? 1 : 0;
    double speed_up = all == 0 ? 0 : speed_up_of(job, hosts, all);
    if (!std::equal(devices, devices + hosts_, base_.begin() + static_cast<std::ptrdiff_t>(job * hosts_))) {
      speed_up *= discounts_[job];
    }
    return 1 / (speed_up / kSpeedUpScale + kLeastSpeedUp);
  }

  double speed_up_of(size_t job, uint32_t hosts, uint32_t devices) {
    std::vector<double>& known = speed_ups_[job];
    if (known.empty()) known.assign((hosts_ + 1) * static_cast<size_t>(limits_[job] + 1), -1);
    double& speed_up = known[hosts * static_cast<size_t>(limits_[job] + 1) + devices];
    if (speed_up < 0) {
      Shape shape;
      shape.devices[0] = static_cast<int32_t>(devices);
      shape.hosts[0] = static_cast<int32_t>(hosts);
      const double left = view_.jobs[job]->outlook->seconds_left(shape);
      speed_up = left > 0 ? fair_[job] / left : 0;
    }
    return speed_up;
  }

  const View& view_;
  const PolluxOptions& options_;
  GeneDice& dice_;
  size_t jobs_, hosts_;
  std::vector<int32_t> capacity_;
  std::vector<int64_t> limits_;
  std::vector<double> fair_, discounts_;
  std::vector<uint8_t> base_;
  std::vector<int32_t> spans_;
  std::vector<std::vector<double>> speed_ups_;  // [job][hosts x devices], computed on demand
};

class Pollux : public Policy {
 public:
  Pollux(const PolluxOptions& options, uint64_t seed) : options_(options), dice_(seed) {}

  bool knows_types() const override { return false; }

  Decision decide(const View& view) override {
    if (view.cluster.types().size() > 1) {
      throw Error(Fault::infeasible, "policy pollux knows clusters with devices of one type only");
    }
    if (view.jobs.empty()) return Decision(0);
    const size_t hosts = view.cluster.hosts().size();
    std::vector<Genes> population = GeneSearch(view, options_, dice_).run(adapted(view, hosts));
    const Genes& best = population.front();
    Decision decision(view.jobs.size());
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      for (size_t host = 0; host < hosts; ++host) {
        const uint8_t devices = best.devices[i * hosts + host];
        if (devices > 0) decision.placements[i].push_back({static_cast<int32_t>(host), devices});
      }
      decision.reasons[i] = "part of the best state that the search found";
    }
    orders_.clear();
    for (const JobView* job : view.jobs) orders_.push_back(job->order);
    population_ = std::move(population);
    return decision;
  }

 private:
  // Returns the last population, without finished jobs and with new jobs, which have no devices.
  std::vector<Genes> adapted(const View& view, size_t hosts) const {
    std::map<int64_t, size_t> before;
    for (size_t i = 0; i < orders_.size(); ++i) before[orders_[i]] = i;
    std::vector<Genes> all(population_.size());
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const auto at = before.find(view.jobs[i]->order);
      for (size_t k = 0; k < all.size(); ++k) {
        std::vector<uint8_t>& devices = all[k].devices;
        if (at == before.end()) {
          devices.resize(devices.size() + hosts, 0);
        } else {
          const auto from = population_[k].devices.begin() + static_cast<std::ptrdiff_t>(at->second * hosts);
          devices.insert(devices.end(), from, from + static_cast<std::ptrdiff_t>(hosts));
        }
      }
    }
    return all;
  }

  PolluxOptions options_;
  GeneDice dice_;
  std::vector<int64_t> orders_;
  std::vector<Genes> population_;
};

}  // namespace

std::unique_ptr<Policy> make_pollux(const PolluxOptions& options, uint64_t seed) {
  return std::make_unique<Pollux>(options, seed);
}

}  // namespace estrain::scheduling
