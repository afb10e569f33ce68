#include "core/planning/plan/hosts/over_hosts.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/planning/plan/partial_sums.h"
#include "core/planning/plan/search/feasibility.h"
#include "core/planning/plan/search/figure.h"

namespace estrain::plan {
namespace {

constexpr size_t kMostForAllSets = 12;  // hosts
constexpr double kTripsOfStep = 3;      // one way

using Hosts = std::vector<size_t>;  // indices, in the order of ranges

bool is_quicker(const HostsPlan& plan, const HostsPlan& other) {
  return plan.step_seconds < other.step_seconds * (1 - kEqual);
}

// A host of an exchange.
struct Exchanging {
  int64_t partial_sums;  // passed on
  Link link;
  int64_t ests = 1, workers = 1;
  double slowness = 1;
};

struct Exchanged {
  double seconds = 0, bytes_sent = 0;
  int64_t factored = 0;
};

// `bytes`: of the gradients that go as sums. `factor_bytes`: of an EST's factors of the others.
Exchanged exchange_of(double bytes, double factor_bytes, const std::vector<Exchanging>& hosts) {
  if (hosts.size() < 2) return {};
  const auto count = static_cast<double>(hosts.size());
  int64_t sums = 0, ests = 0;
  for (const Exchanging& host : hosts) sums += host.partial_sums, ests += host.ests;
  Exchanged exchanged;
  double round_trip = 0;
  for (const Exchanging& host : hosts) {
    const double sent = bytes * (count - 1) / count * static_cast<double>(host.partial_sums + 1) +
                        factor_bytes * (count - 1) * static_cast<double>(host.ests);
    const double received = bytes / count * (static_cast<double>(sums - host.partial_sums) + count - 1) +
                            factor_bytes * static_cast<double>(ests - host.ests);
    exchanged.seconds = std::max(exchanged.seconds, std::max(sent, received) / host.link.bytes_per_second);
    exchanged.bytes_sent = std::max(exchanged.bytes_sent, sent);
    round_trip = std::max(round_trip, host.link.round_trip_seconds);
  }
  exchanged.seconds += kTripsOfStep / 2 * round_trip;
  return exchanged;
}

bool goes_as_factors(const FactoredGradient& gradient, const GradientTraffic& traffic,
                     const std::vector<Exchanging>& hosts, double waited_seconds) {
  FactorOffers offers{.hosts = {}, .gradient_bytes = gradient.bytes, .bytes_of_all = traffic.bytes};
  for (const Exchanging& host : hosts) {
    offers.hosts.push_back({gradient.factor_bytes, gradient.product_seconds * host.slowness, waited_seconds,
                            static_cast<size_t>(host.ests)});
  }
  return choice_of(offers, traffic.sends_all_factors) == FactorChoice::sent;
}

// The time of the slowest host. `total`, `longest`: of the products of an EST's factors, all and one, on the first
// host.
double seconds_of_products(double total, double longest, const std::vector<Exchanging>& hosts) {
  int64_t ests = 0;
  for (const Exchanging& host : hosts) ests += host.ests;
  double seconds = 0;
  for (const Exchanging& host : hosts) {
    const double shared = std::max(longest, total / static_cast<double>(host.workers));
    seconds = std::max(seconds, shared * host.slowness * static_cast<double>(ests - host.ests));
  }
  return seconds;
}

Exchanged exchange_of(const GradientTraffic& traffic, const std::vector<Exchanging>& hosts) {
  const Exchanged as_sums = exchange_of(traffic.bytes, 0, hosts);
  if (hosts.size() < 2) return as_sums;
  double bytes = traffic.bytes, factor_bytes = 0, products = 0, longest_product = 0;
  int64_t factored = 0;
  for (const FactoredGradient& gradient : traffic.factored) {
    if (!goes_as_factors(gradient, traffic, hosts, as_sums.seconds)) continue;
    ++factored;
    bytes -= gradient.bytes;
    factor_bytes += static_cast<double>(gradient.factor_bytes);
    products += gradient.product_seconds;
    longest_product = std::max(longest_product, gradient.product_seconds);
  }
  Exchanged exchanged = exchange_of(bytes, factor_bytes, hosts);
  exchanged.seconds += seconds_of_products(products, longest_product, hosts);
  exchanged.factored = factored;
  return exchanged;
}

// The best plan of one host for each number of ESTs.
class Alone {
 public:
  Alone(const PlannedJob& job, const HostDevices& host) {
    PlannedJob part = job;
    for (part.ests = 1; part.ests <= job.ests; ++part.ests) {
      try {
        plans_.push_back(best_plan(part, host.groups));
      } catch (const Error& error) {
        if (error.fault() != Fault::infeasible || plans_.empty()) throw;
        break;  // no room for more
      }
    }
  }

  int64_t most_ests() const { return std::ssize(plans_); }
  const Plan& plan(int64_t ests) const { return plans_[static_cast<size_t>(ests - 1)]; }
  double seconds(int64_t ests) const { return plan(ests).step_seconds; }
  // Returns the number of ESTs done within a time.
  int64_t within(double seconds) const {
    int64_t ests = most_ests();
    while (ests > 0 && plan(ests).step_seconds > seconds) --ests;
    return ests;
  }

 private:
  std::vector<Plan> plans_;  // [ests - 1]
};

class Planner {
 public:
  Planner(const PlannedJob& job, const GradientTraffic& traffic, const std::vector<HostDevices>& hosts)
      : job_(job), traffic_(traffic), hosts_(hosts) {
    for (const HostDevices& host : hosts) alone_.emplace_back(job, host);
    for (const FactoredGradient& gradient : traffic.factored) least_bytes_ -= gradient.bytes;
  }

  std::optional<HostsPlan> best_on(const Hosts& set) const {
    std::optional<HostsPlan> best;
    const double least = exchange_of(least_bytes_, 0, exchanging(set)).seconds;
    for (const double seconds : times(set)) {
      if (best && seconds + least >= best->step_seconds) break;
      const std::vector<int64_t> ests = share_out(set, seconds);
      if (ests.empty()) continue;
      HostsPlan plan = evaluate(set, ests);
      if (!best || is_quicker(plan, *best)) best = std::move(plan);
    }
    return best;
  }

  double speed(size_t host) const {
    const int64_t ests = alone_[host].most_ests();
    return static_cast<double>(ests) / alone_[host].seconds(ests);
  }

 private:
  double bandwidth(size_t host) const {
    if (host != 0) return hosts_[host].link.bytes_per_second;
    double most = 0;  // the launcher's: the best rate measured from the launcher's host
    for (size_t other = 1; other < hosts_.size(); ++other) most = std::max(most, hosts_[other].link.bytes_per_second);
    return most;
  }

  // The hosts of the set, each with one EST and one partial sum.
  std::vector<Exchanging> exchanging(const Hosts& set) const {
    std::vector<Exchanging> all;
    for (const size_t host : set) {
      const Link link{bandwidth(host), hosts_[host].link.round_trip_seconds};
      all.push_back({.partial_sums = 1, .link = link, .slowness = hosts_[host].slowness});
    }
    return all;
  }

  // Returns the possible times of the set's hosts, shortest first.
  std::vector<double> times(const Hosts& set) const {
    std::vector<double> all;
    for (const size_t host : set) {
      for (int64_t ests = 1; ests <= alone_[host].most_ests(); ++ests) all.push_back(alone_[host].seconds(ests));
    }
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  // Returns the ESTs of each host, with all hosts done within `seconds`, cut for the fewest partial sums; nothing if
  // the hosts cannot do all ESTs in this time.
  std::vector<int64_t> share_out(const Hosts& set, double seconds) const {
    std::vector<int64_t> most, ests;
    for (const size_t host : set) most.push_back(alone_[host].within(seconds));
    int64_t later = std::accumulate(most.begin(), most.end(), int64_t{0});
    if (later < job_.ests || std::ranges::min(most) == 0) return {};
    int64_t begin = 0;
    for (size_t i = 0; i < set.size(); ++i) {
      later -= most[i];
      const int64_t hosts_left = std::ssize(set) - 1 - static_cast<int64_t>(i);
      const int64_t least = std::max<int64_t>(1, job_.ests - begin - later);
      const int64_t highest = std::min(most[i], job_.ests - begin - hosts_left);
      if (highest < least) return {};
      const int64_t end = hosts_left == 0 ? job_.ests : most_aligned(begin + least, begin + highest);
      ests.push_back(end - begin);
      begin = end;
    }
    return ests;
  }

  HostsPlan evaluate(const Hosts& set, const std::vector<int64_t>& ests) const {
    HostsPlan plan;
    std::vector<Exchanging> hosts = exchanging(set);
    int64_t begin = 0;
    for (size_t i = 0; i < set.size(); ++i) {
      hosts[i].ests = ests[i];
      hosts[i].partial_sums = partial_sums(job_.ests, begin, begin + ests[i]);
      hosts[i].workers = std::ssize(alone_[set[i]].plan(ests[i]).workers);
      begin += ests[i];
      plan.hosts.push_back({set[i], ests[i], hosts[i].partial_sums, alone_[set[i]].plan(ests[i])});
      plan.compute_seconds = std::max(plan.compute_seconds, alone_[set[i]].seconds(ests[i]));
    }
    const Exchanged exchanged = exchange_of(traffic_, hosts);
    plan.exchange_seconds = exchanged.seconds;
    plan.step_seconds = plan.compute_seconds + plan.exchange_seconds;
    plan.bytes_sent = exchanged.bytes_sent;
    plan.factored = exchanged.factored;
    plan.reason = reason_of(plan);
    return plan;
  }

  std::string reason_of(const HostsPlan& plan) const {
    const HostsPlan::Part& slowest =
        *std::ranges::max_element(plan.hosts, {}, [](const HostsPlan::Part& part) { return part.plan.step_seconds; });
    std::string text = fmt::format("{} with {} EST{} sets the pace", hosts_[slowest.host].name, slowest.ests,
                                   slowest.ests == 1 ? "" : "s");
    if (plan.hosts.size() > 1)
      text += fmt::format("; the exchange between hosts takes {:.0f} % of the step",
                          100 * plan.exchange_seconds / plan.step_seconds);
    if (plan.factored > 0)
      text += fmt::format("; {} gradient{} as factors", plan.factored, plan.factored == 1 ? " goes" : "s go");
    return text;
  }

  const PlannedJob job_;
  const GradientTraffic& traffic_;
  const std::vector<HostDevices>& hosts_;
  double least_bytes_ = traffic_.bytes;  // of gradients that go as sums in any case
  std::vector<Alone> alone_;
};

// Returns the sets of `count` hosts with the first host.
std::vector<Hosts> all_sets(size_t hosts, size_t count) {
  std::vector<Hosts> sets;
  for (uint32_t chosen = 0; chosen < uint32_t{1} << (hosts - 1); ++chosen) {
    if (static_cast<size_t>(std::popcount(chosen)) + 1 != count) continue;
    Hosts& set = sets.emplace_back(1, 0);
    for (size_t host = 1; host < hosts; ++host) {
      if ((chosen >> (host - 1) & 1) != 0) set.push_back(host);
    }
  }
  return sets;
}

template <typename Worth>
Hosts first_by(size_t hosts, size_t count, Worth&& worth) {
  Hosts others(hosts - 1);
  std::iota(others.begin(), others.end(), size_t{1});
  std::ranges::stable_sort(others, std::greater(), worth);
  others.resize(count - 1);
  std::ranges::sort(others);
  others.insert(others.begin(), 0);
  return others;
}

void check_hosts(const PlannedJob& job, const GradientTraffic& traffic, const std::vector<HostDevices>& hosts) {
  check_job(job);
  if (hosts.empty() || !(traffic.bytes >= 0)) throw Error(Fault::infeasible, "no host to plan with");
  for (size_t i = 0; i < hosts.size(); ++i) {
    check_groups(hosts[i].groups);
    if (i > 0 && !(hosts[i].link.bytes_per_second > 0 && hosts[i].link.round_trip_seconds >= 0))
      throw Error::make(Fault::infeasible, "the link to host {} carries nothing", hosts[i].name);
  }
}

}  // namespace

double exchange_seconds(double gradient_bytes, int64_t hosts, const Link& link) {
  const std::vector<Exchanging> all(static_cast<size_t>(hosts), {.partial_sums = 1, .link = link});
  return exchange_of(gradient_bytes, 0, all).seconds;
}

std::vector<HostsPlan> plans_over_hosts(const PlannedJob& job, const GradientTraffic& traffic,
                                        const std::vector<HostDevices>& hosts) {
  check_hosts(job, traffic, hosts);
  const Planner planner(job, traffic, hosts);
  std::vector<HostsPlan> plans;
  for (size_t count = 1; count <= hosts.size() && static_cast<int64_t>(count) <= job.ests; ++count) {
    std::vector<Hosts> sets;
    if (hosts.size() <= kMostForAllSets) {
      sets = all_sets(hosts.size(), count);
    } else {
      sets.push_back(first_by(hosts.size(), count, [&](size_t host) { return planner.speed(host); }));
      sets.push_back(first_by(hosts.size(), count, [&](size_t host) { return hosts[host].link.bytes_per_second; }));
    }
    std::optional<HostsPlan> best;
    for (const Hosts& set : sets) {
      std::optional<HostsPlan> plan = planner.best_on(set);
      if (plan && (!best || is_quicker(*plan, *best))) best = std::move(plan);
    }
    if (best) plans.push_back(std::move(*best));
  }
  if (plans.empty()) throw Error(Fault::infeasible, "the devices of all hosts together cannot host the job's ESTs");
  return plans;
}

const HostsPlan& best_of(const std::vector<HostsPlan>& plans) {
  const HostsPlan* best = &plans.front();
  for (const HostsPlan& plan : plans) {
    if (is_quicker(plan, *best)) best = &plan;
  }
  return *best;
}

}  // namespace estrain::plan
