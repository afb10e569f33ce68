#include "core/planning/plan/burst.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

#include "tests/core/planning/plan/dice.h"
#include "tests/error_of.h"

namespace estrain::plan {
namespace {

const BurstNetwork kNetwork{1e9, 1e-3};

BurstPart one(std::string name, std::vector<double> compute, double input = 0, double parameters = 0) {
  return {{{{std::move(name), std::move(compute), input, parameters}}}};
}

std::vector<int64_t> counts(const BurstPlan& plan) {
  std::vector<int64_t> all;
  for (const BurstStep& step : plan.steps) all.push_back(step.devices);
  return all;
}

TEST_CASE("a layer has as many devices as the limit allows") {
  const std::vector<BurstPart> parts = {one("a", {1, 0.6, 0.4})};
  CHECK(counts(best_burst_plan(parts, kNetwork, 1)) == std::vector<int64_t>{1});
  CHECK(counts(best_burst_plan(parts, kNetwork, 1.2)) == std::vector<int64_t>{2});
  const BurstPlan plan = best_burst_plan(parts, kNetwork, 1.6);
  CHECK(counts(plan) == std::vector<int64_t>{4});
  CHECK(plan.seconds == 0.4);
  CHECK(plan.device_seconds == 1.6);
  CHECK(plan.amplification == 1.6);
}

TEST_CASE("transfer and sync count, in time and against the limit") {
  // On two devices b syncs 0.1 GB in 0.101 s; from one device to two half the input goes there and back: 0.101 s.
  CHECK(transfer_seconds(kNetwork, 1e8, 1, 2) == doctest::Approx(0.101));
  CHECK(transfer_seconds(kNetwork, 1e8, 4, 4) == 0);
  CHECK(transfer_seconds(kNetwork, 1e8, 4, 2) == doctest::Approx(0.001 + 2 * 0.1 * 0.25));
  const std::vector<BurstPart> parts = {one("a", {0.2, 0.2}), one("b", {1, 0.5}, 1e8, 1e8)};
  const BurstPlan split = best_burst_plan(parts, kNetwork, 1.5);
  CHECK(counts(split) == std::vector<int64_t>{1, 2});
  CHECK(split.seconds == doctest::Approx(0.2 + 0.101 + 0.5 + 0.101));
  CHECK(counts(best_burst_plan(parts, kNetwork, 1.4)) == std::vector<int64_t>{1, 1});  // 2 x 0.702 > 1.4
  CHECK(counts(best_burst_plan(parts, kNetwork, 2)) == std::vector<int64_t>{2, 2});    // a on two is not slower
}

// Every assignment of counts to layers.
double brute_force(const std::vector<BurstPart>& parts, double limit) {
  std::vector<const BurstLayer*> layers;
  std::vector<std::pair<size_t, size_t>> place;  // part, branch
  for (size_t p = 0; p < parts.size(); ++p) {
    for (size_t b = 0; b < parts[p].branches.size(); ++b) {
      for (const BurstLayer& layer : parts[p].branches[b]) layers.push_back(&layer), place.emplace_back(p, b);
    }
  }
  const size_t choices = layers[0]->compute.size();
  double best = std::numeric_limits<double>::infinity();
  std::vector<size_t> chosen(layers.size(), 0);
  for (;;) {
    double seconds = 0;
    bool allowed = true;
    int64_t begin = 0, end = 0;  // devices at the part's begin and at its branches' end; 0: not known yet
    for (size_t i = 0; i < layers.size() && allowed; ++i) {
      const bool new_part = i > 0 && place[i].first != place[i - 1].first;
      const bool new_branch = i == 0 || place[i] != place[i - 1];
      if (new_part) begin = end;
      const int64_t from = new_branch ? begin : int64_t{1} << chosen[i - 1], to = int64_t{1} << chosen[i];
      double step = layers[i]->compute[chosen[i]];
      if (from != 0 && from != to) {
        const double least = static_cast<double>(std::min(from, to)), most = static_cast<double>(std::max(from, to));
        step += kNetwork.delay + 2 * layers[i]->input_bytes * (1 / least - 1 / most) / kNetwork.bandwidth;
      }
      if (to > 1 && layers[i]->parameter_bytes > 0) {
        step += kNetwork.delay + layers[i]->parameter_bytes / kNetwork.bandwidth;
      }
      allowed = step * static_cast<double>(to) <= limit * layers[i]->compute[0];
      const bool ends = i + 1 == layers.size() || place[i + 1] != place[i];
      if (ends && place[i].second > 0 && to != end) allowed = false;  // branches end alike
      if (ends) end = to;
      seconds += step;
    }
    if (allowed) best = std::min(best, seconds);
    size_t at = 0;
    while (at < chosen.size() && ++chosen[at] == choices) chosen[at++] = 0;
    if (at == chosen.size()) return best;
  }
}

std::vector<BurstPart> random_parts(Dice& dice) {
  std::vector<BurstPart> parts;
  int64_t layers = dice.between(1, 6);
  const int64_t choices = dice.between(1, 3);
  const auto layer = [&] {
    BurstLayer made{
        "l", {dice.real(0.01, 1)}, dice.heads() ? dice.real(0, 1e8) : 0, dice.heads() ? dice.real(0, 1e8) : 0};
    for (int64_t c = 1; c < choices; ++c) made.compute.push_back(made.compute.back() * dice.real(0.45, 1));
    return made;
  };
  while (layers > 0) {
    BurstPart part;
    for (int64_t b = std::min(layers, dice.upto(2) == 0 ? dice.between(2, 3) : 1); b > 0; --b) {
      BurstChain branch;
      for (int64_t l = dice.between(1, 2); l > 0; --l, --layers) branch.push_back(layer());
      part.branches.push_back(branch);
    }
    parts.push_back(part);
  }
  return parts;
}

TEST_CASE("as good as brute force, within the limit, and no slower than data parallel where that is within it") {
  Dice dice(22);
  int blocks = 0, parallel = 0;
  for (int round = 0; round < 1000; ++round) {
    const std::vector<BurstPart> parts = random_parts(dice);
    for (const BurstPart& part : parts) blocks += part.branches.size() > 1 ? 1 : 0;
    const double limit = dice.heads() ? dice.real(1, 1.5) : dice.real(1, 4);
    const BurstPlan plan = best_burst_plan(parts, kNetwork, limit);
    REQUIRE(plan.seconds == doctest::Approx(brute_force(parts, limit)).epsilon(1e-12));
    REQUIRE(is_within(plan, parts, limit));
    for (size_t k = 0; k < parts[0].branches[0][0].compute.size(); ++k) {
      const BurstPlan same = data_parallel_plan(parts, kNetwork, int64_t{1} << k);
      if (!is_within(same, parts, limit)) continue;
      parallel += k > 0 ? 1 : 0;
      REQUIRE(plan.seconds <= same.seconds * (1 + 1e-12));
    }
  }
  CHECK(blocks > 200);
  CHECK(parallel > 50);
}

TEST_CASE("1,024 devices and a hundred layers take milliseconds") {
  Dice dice(3);
  std::vector<BurstPart> parts;
  for (int i = 0; i < 107; ++i) {
    std::vector<double> compute = {dice.real(0.01, 1)};
    for (int k = 0; k < 10; ++k) compute.push_back(compute.back() * dice.real(0.5, 0.8));
    parts.push_back(one("l", compute, dice.real(0, 1e7), dice.real(0, 1e7)));
  }
  double least = 1;
  for (int i = 0; i < 5; ++i) {
    const auto began = std::chrono::steady_clock::now();
    best_burst_plan(parts, kNetwork, 3);
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  CHECK(least < 0.01);
}

TEST_CASE("what cannot be planned") {
  CHECK(error_of([] { best_burst_plan({one("a", {1})}, kNetwork, 0.9); }).fault() == Fault::usage);
  CHECK(error_of([] { best_burst_plan({}, kNetwork, 1); }).fault() == Fault::spec);
  CHECK(error_of([] {
          best_burst_plan({one("a", {1}), one("b", {1, 1})}, kNetwork, 1);
        }).message() == "layer b has times for 2 numbers of devices, others for 1");
  CHECK(error_of([] { best_burst_plan({one("a", {-1})}, kNetwork, 1); }).fault() == Fault::spec);
  CHECK(error_of([] { best_burst_plan({BurstPart{{{}}}}, kNetwork, 1); }).message() == "a branch has no layers");
  CHECK(error_of([] { data_parallel_plan({one("a", {1, 1})}, kNetwork, 3); }).fault() == Fault::usage);
}

}  // namespace
}  // namespace estrain::plan
