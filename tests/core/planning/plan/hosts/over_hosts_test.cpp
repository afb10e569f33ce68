#include "core/planning/plan/hosts/over_hosts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "core/base/error.h"
#include "core/planning/plan/partial_sums.h"

namespace estrain::plan {
namespace {

constexpr Link kFast = {1e12, 0};

DeviceGroup cores(int64_t count, double rate = 10) {
  return {.kind = "cpu", .count = count, .mini_batches_per_second = rate};
}

std::vector<int64_t> ests_of(const HostsPlan& plan) {
  std::vector<int64_t> ests;
  for (const HostsPlan::Part& part : plan.hosts) ests.push_back(part.ests);
  return ests;
}

PlannedJob job_of(int64_t ests) { return {.ests = ests, .one_kind = true, .exchange = {}, .crowding = {}}; }

TEST_CASE("hosts with equal links exchange as long as their plan says") {
  CHECK(exchange_seconds(1e9, 1, {1e9, 1}) == 0);
  CHECK(exchange_seconds(1e9, 2, {1e9, 0.5}) == doctest::Approx(1.75));
  PlannedJob job;
  job.ests = 2;
  const DeviceGroup one{.kind = "cpu", .count = 1, .mini_batches_per_second = 0.1};
  const std::vector<HostsPlan> plans = plans_over_hosts(job, {1e9}, {{"a", {one}}, {"b", {one}, {1e9, 0.5}}});
  REQUIRE(plans.size() == 2);
  CHECK(plans[1].exchange_seconds == doctest::Approx(1.75));
}

TEST_CASE("equal hosts on a fast network share the ESTs evenly, and more of them are quicker") {
  const std::vector<HostDevices> hosts = {
      {"a", {cores(2)}}, {"b", {cores(2)}, kFast}, {"c", {cores(2)}, kFast}, {"d", {cores(2)}, kFast}};
  const auto plans = plans_over_hosts(job_of(16), {1000}, hosts);
  REQUIRE(plans.size() == 4);
  CHECK(ests_of(plans[3]) == std::vector<int64_t>{4, 4, 4, 4});
  CHECK(plans[3].step_seconds == doctest::Approx(0.2));
  CHECK(plans[0].step_seconds == doctest::Approx(0.8));
  CHECK(&best_of(plans) == &plans[3]);
}

TEST_CASE("a slow host gets fewer ESTs") {
  const std::vector<HostDevices> hosts = {{"a", {cores(1, 30)}}, {"slow", {cores(1, 10)}, kFast}};
  const auto plans = plans_over_hosts(job_of(8), {1000}, hosts);
  CHECK(ests_of(plans[1]) == std::vector<int64_t>{6, 2});
}

TEST_CASE("where traffic decides, the cores of other hosts stay idle") {
  // 100 MB of gradients: two hosts send 2 P (H-1)/H = 100 MB each.
  const auto with_link = [](Link link) { return std::vector<HostDevices>{{"a", {cores(2)}}, {"b", {cores(2)}, link}}; };
  const PlannedJob job = job_of(8);  // 0.4 s on one host, 0.2 s on two
  const auto slow = plans_over_hosts(job, {1e8}, with_link({1.25e8, 0.001}));
  CHECK(slow[1].exchange_seconds == doctest::Approx(0.8 + 1.5 * 0.001));
  CHECK(slow[1].bytes_sent == doctest::Approx(1e8));
  CHECK(best_of(slow).hosts.size() == 1);
  CHECK(best_of(slow).bytes_sent == 0);
  const auto fast = plans_over_hosts(job, {1e8}, with_link({1.25e9, 0.001}));
  CHECK(best_of(fast).hosts.size() == 2);
}

TEST_CASE("gradients go as factors where this is worth it, and the products follow the exchange") {
  // Of 100 MB of gradients one has 90 MB, and factors of 1 MB.
  GradientTraffic traffic{1e8, {{9e7, 1'000'000, 0.01}}};
  std::vector<HostDevices> hosts = {{"a", {cores(1)}}, {"b", {cores(1)}, {1e8, 0.01}}};
  const auto plan = [&] { return plans_over_hosts(job_of(2), traffic, hosts).at(1); };
  CHECK(plan().factored == 1);
  CHECK(plan().exchange_seconds == doctest::Approx(0.1 + 0.01 + 0.01 + 1.5 * 0.01));
  CHECK(plan().bytes_sent == doctest::Approx(1.1e7));
  CHECK(plan().reason.ends_with("; 1 gradient goes as factors"));
  traffic.factored[0].product_seconds = 0.5;
  traffic.sends_all_factors = true;
  CHECK(plan().exchange_seconds == doctest::Approx(0.1 + 0.01 + 0.5 + 1.5 * 0.01));
}

TEST_CASE("gradients go as sums where factors are too large, or products too slow on one of the hosts") {
  GradientTraffic traffic{1e8, {{9e7, 1'000'000, 0.01}}};
  std::vector<HostDevices> hosts = {{"a", {cores(1)}}, {"b", {cores(1)}, {1e8, 0.01}}};
  SUBCASE("factors") { traffic.factored[0].factor_bytes = 50'000'000; }
  SUBCASE("products") { traffic.factored[0].product_seconds = 0.5; }
  SUBCASE("products of the slower host") { hosts[1].slowness = 50; }
  const HostsPlan plan = plans_over_hosts(job_of(2), traffic, hosts).at(1);
  CHECK(plan.factored == 0);
  CHECK(plan.exchange_seconds == doctest::Approx(1 + 1.5 * 0.01));
}

TEST_CASE("the workers of a host share the products, one gradient each") {
  // Each host multiplies the factors of two other ESTs: 0.02 s for a gradient.
  const std::vector<HostDevices> hosts = {{"a", {cores(2)}}, {"b", {cores(2)}, {1e8, 0}}};
  GradientTraffic traffic{2e8, {{9e7, 1'000'000, 0.01}, {9e7, 1'000'000, 0.01}}};
  const HostsPlan two = plans_over_hosts(job_of(4), traffic, hosts).at(1);
  CHECK(ests_of(two) == std::vector<int64_t>{2, 2});
  CHECK(two.exchange_seconds == doctest::Approx(0.2 + 0.04 + 0.02));
  traffic.factored.push_back({1e6, 1000, 0.01});
  traffic.sends_all_factors = true;
  CHECK(plans_over_hosts(job_of(4), traffic, hosts).at(1).exchange_seconds ==
        doctest::Approx(0.19 + 2.001e6 * 2 / 1e8 + 0.03));
}

TEST_CASE("of two hosts the one with the better link is taken, and a far one by its round trip") {
  const Link good = {1e9, 0.0001};
  Link bad = good;
  SUBCASE("bandwidth") { bad.bytes_per_second = 1e7; }
  SUBCASE("round trip") { bad.round_trip_seconds = 0.05; }
  const std::vector<HostDevices> hosts = {{"a", {cores(1)}}, {"bad", {cores(1)}, bad}, {"good", {cores(1)}, good}};
  const auto plans = plans_over_hosts(job_of(2), {1e6}, hosts);
  REQUIRE(plans[1].hosts.size() == 2);
  CHECK(plans[1].hosts[1].host == 2);
}

TEST_CASE("a cut that passes on one partial sum is worth a longer pass if the network is slow") {
  // 6 ESTs on equal hosts: 3 + 3 passes on two partial sums of each; 4 + 2 one of each.
  const auto on = [](double bytes_per_second) {
    const std::vector<HostDevices> hosts = {{"a", {cores(1, 100)}}, {"b", {cores(1, 100)}, {bytes_per_second, 0}}};
    return ests_of(plans_over_hosts(job_of(6), {1e7}, hosts)[1]);
  };
  CHECK(on(1e11) == std::vector<int64_t>{3, 3});
  CHECK(on(1e8) == std::vector<int64_t>{4, 2});
  // Between splits that take the same time, the one that is cut at a node of the tree.
  const std::vector<HostDevices> hosts = {{"a", {cores(1)}}, {"b", {cores(1)}, kFast}};
  CHECK(ests_of(plans_over_hosts(job_of(9), {1e7}, hosts)[1]) == std::vector<int64_t>{4, 5});
}

TEST_CASE("memory, unsound hosts and no hosts are told of") {
  DeviceGroup small = cores(1);
  small.most_ests = 3;
  const std::vector<HostDevices> hosts = {{"a", {small}}, {"b", {small}, kFast}};
  const auto plans = plans_over_hosts(job_of(5), {1}, hosts);
  REQUIRE(plans.size() == 1);  // one host alone has no room
  CHECK(plans[0].hosts.size() == 2);
  CHECK_THROWS_AS(plans_over_hosts(job_of(7), {1}, hosts), Error);
  CHECK_THROWS_AS(plans_over_hosts(job_of(2), {1}, {}), Error);
  CHECK_THROWS_AS(plans_over_hosts(job_of(2), {1}, {{"a", {small}}, {"b", {small}, {0, 0}}}), Error);
}

// By the formula of over_hosts.h, for hosts of one device each.
double seconds_of(double gradient_bytes, const std::vector<HostDevices>& hosts, const std::vector<int64_t>& ests) {
  double compute = 0, exchange = 0, round_trip = 0, fastest = 0, count = 0;
  int64_t total = 0, all_sums = 0;
  for (const int64_t each : ests) total += each;
  std::vector<int64_t> sums;
  int64_t begin = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    sums.push_back(ests[i] == 0 ? 0 : partial_sums(total, begin, begin + ests[i]));
    begin += ests[i];
    all_sums += sums.back();
    fastest = std::max(fastest, hosts[i].link.bytes_per_second);
    if (ests[i] == 0) continue;
    ++count;
    compute = std::max(compute, static_cast<double>(ests[i]) / hosts[i].groups[0].mini_batches_per_second);
    round_trip = std::max(round_trip, hosts[i].link.round_trip_seconds);
  }
  if (count < 2) return compute;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (ests[i] == 0) continue;
    const double own = static_cast<double>(sums[i]), sent = gradient_bytes * (count - 1) / count * (own + 1);
    const double received = gradient_bytes / count * (static_cast<double>(all_sums) - own + count - 1);
    exchange = std::max(exchange, std::max(sent, received) / (i == 0 ? fastest : hosts[i].link.bytes_per_second));
  }
  return compute + exchange + 1.5 * round_trip;
}

TEST_CASE("against all splits over three hosts, in the same order") {
  std::mt19937 random(7);
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  int within = 0, cases = 60;
  for (int round = 0; round < cases; ++round) {
    const auto ests = static_cast<int64_t>(draw(3, 13));
    std::vector<HostDevices> hosts = {{"a", {cores(1, draw(5, 50))}}};
    for (const char* name : {"b", "c"})
      hosts.push_back({name, {cores(1, draw(5, 50))}, {draw(1e6, 1e8), draw(0, 0.01)}});
    const double bytes = draw(1e4, 1e7);
    double best = 1e300;
    for (int64_t first = 1; first <= ests; ++first) {
      for (int64_t second = 0; first + second <= ests; ++second)
        best = std::min(best, seconds_of(bytes, hosts, {first, second, ests - first - second}));
    }
    const auto plans = plans_over_hosts(job_of(ests), {bytes}, hosts);
    const HostsPlan& found = best_of(plans);
    std::vector<int64_t> split(3, 0);
    for (const HostsPlan::Part& part : found.hosts) split[part.host] = part.ests;
    CHECK(found.step_seconds == doctest::Approx(seconds_of(bytes, hosts, split)));
    CHECK(found.step_seconds >= best * (1 - 1e-9));
    CHECK(found.step_seconds <= best * 1.25);
    within += found.step_seconds <= best * (1 + 1e-9) ? 1 : 0;
  }
  CHECK(within >= cases * 8 / 10);  // the cuts are greedy
}

}  // namespace
}  // namespace estrain::plan
