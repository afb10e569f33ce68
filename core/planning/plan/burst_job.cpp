#include "core/planning/plan/burst_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace estrain::plan {
namespace {

constexpr double kLeastBurstGain = 1.01;

int64_t ceiling(int64_t dividend, int64_t divisor) { return (dividend + divisor - 1) / divisor; }

struct PlanTimes {
  double compute = 0, transfer = 0, sync = 0;  // ms
};

PlanTimes times_of(const BurstPlan& plan) {
  PlanTimes times;
  for (const BurstStep& step : plan.steps) {
    times.compute += 1e3 * step.compute;
    times.transfer += 1e3 * step.transfer;
    times.sync += 1e3 * step.sync;
  }
  return times;
}

std::string devices_text(int64_t devices) { return devices == 1 ? "one device" : fmt::format("{} devices", devices); }

const BurstLayer& layer_at(const std::vector<BurstPart>& parts, size_t index) {
  for (const BurstPart& part : parts) {
    for (const BurstChain& branch : part.branches) {
      if (index < branch.size()) return branch[index];
      index -= branch.size();
    }
  }
  return parts.back().branches.back().back();
}

// Returns why the limit keeps the search from the faster plan `same`, which exceeds the limit.
std::string why_limited(const BurstPlan& same, const std::vector<BurstPart>& parts, double limit) {
  for (size_t i = 0; i < same.steps.size(); ++i) {
    const BurstStep& step = same.steps[i];
    const double taken = step.seconds() * static_cast<double>(step.devices), alone = layer_at(parts, i).compute[0];
    if (taken <= limit * alone) continue;
    return fmt::format(
        "data parallel over {} is faster, and exceeds the limit: block {} takes {:.2f} ms of device-time, {:.2f} ms on "
        "one device",
        devices_text(step.devices), step.layer, 1e3 * taken, 1e3 * alone);
  }
  return "data parallel is faster";
}

// Returns why all layers are on one and the same number of devices.
std::string why_alike(const BurstVerdict& verdict) {
  const int64_t devices = verdict.best.steps.front().devices;
  const PlanTimes few = times_of(verdict.best), all = times_of(verdict.same.back());
  const std::string alike = fmt::format("every block is fastest on {}", devices_text(devices));
  if (devices == verdict.same.back().steps.front().devices)
    return fmt::format("{}, where sums of gradients take {:.2f} ms beside {:.2f} ms of computing", alike, all.sync,
                       all.compute);
  return fmt::format("{}: more would save {:.2f} ms of computing and take {:.2f} ms more for sums of gradients", alike,
                     few.compute - all.compute, all.sync - few.sync);
}

std::string why_no_gain(const BurstVerdict& verdict, const std::vector<BurstPart>& parts, double limit) {
  if (verdict.same.size() == 1) return "there is one device, or one EST: nothing can be divided";
  const BurstPlan& same = verdict.same[verdict.fastest];
  if (same.seconds < verdict.best.seconds && !is_within(same, parts, limit)) return why_limited(same, parts, limit);
  if (verdict.best.steps.size() == 1) return "the network is a single block";
  const auto& steps = verdict.best.steps;
  const bool alike =
      std::ranges::all_of(steps, [&](const BurstStep& step) { return step.devices == steps.front().devices; });
  if (alike) return why_alike(verdict);
  return fmt::format("passing activations on takes {:.2f} ms, nearly all that other numbers of devices save",
                     times_of(verdict.best).transfer);
}

// The sums of all blocks' gradients, on several devices.
struct AllSums {
  double bytes = 0, seconds = 0;
};

AllSums all_sums(const std::vector<MeasuredBlock>& blocks, const BurstNetwork& network) {
  AllSums all;
  for (const MeasuredBlock& block : blocks) {
    if (block.parameter_bytes <= 0) continue;
    all.bytes += block.parameter_bytes;
    all.seconds += network.delay + block.parameter_bytes / network.bandwidth;
  }
  return all;
}

// Of a block on `count` devices: the first of them have an EST more than the others.
BurstSync sync_of(const MeasuredBlock& block, const BurstDevices& devices, int64_t count, const AllSums& all) {
  BurstSync sync{block.parameter_bytes};
  const int64_t fewest = devices.ests / count, most = ceiling(devices.ests, count);
  for (const FactoredGradient& gradient : block.factored) {
    FactorOffers offers{.hosts = {}, .gradient_bytes = gradient.bytes, .bytes_of_all = all.bytes};
    for (int64_t device = 0; device < count; ++device) {
      const int64_t ests = device < devices.ests % count ? most : fewest;
      offers.hosts.push_back({gradient.factor_bytes, gradient.product_seconds, all.seconds, static_cast<size_t>(ests)});
    }
    if (choice_of(offers, devices.sends_all_factors) != FactorChoice::sent) continue;
    const int64_t moved = std::max(most * (count - 1), devices.ests - fewest);
    sync.bytes += static_cast<double>(moved) * static_cast<double>(gradient.factor_bytes) - gradient.bytes;
    sync.product_seconds += static_cast<double>(devices.ests - fewest) * gradient.product_seconds;
    ++sync.factored;
  }
  return sync;
}

}  // namespace

std::vector<BurstPart> parts_of(const std::vector<MeasuredBlock>& blocks, const BurstDevices& devices) {
  const AllSums all = all_sums(blocks, devices.network);
  std::vector<BurstPart> parts;
  double input_bytes = 0;
  for (const MeasuredBlock& block : blocks) {
    BurstLayer layer{block.name, {}, input_bytes, block.parameter_bytes};
    for (int64_t count = 1; count <= std::max<int64_t>(1, std::min(devices.ests, devices.most)); count *= 2) {
      layer.compute.push_back(static_cast<double>(ceiling(devices.ests, count)) * (block.forward + block.backward) +
                              block.update);
      layer.sync.push_back(sync_of(block, devices, count, all));
    }
    parts.push_back({{{std::move(layer)}}});
    input_bytes = static_cast<double>(devices.ests) * block.output_bytes;
  }
  return parts;
}

BurstVerdict weigh_burst_plan(BurstPlan best, const std::vector<BurstPart>& parts, const BurstNetwork& network,
                              double limit) {
  BurstVerdict verdict;
  verdict.best = std::move(best);
  const size_t counts = parts.front().branches.front().front().compute.size();
  for (size_t exponent = 0; exponent < counts; ++exponent)
    verdict.same.push_back(data_parallel_plan(parts, network, int64_t{1} << exponent));
  const auto fastest = std::ranges::min_element(verdict.same, {}, &BurstPlan::seconds);
  verdict.fastest = static_cast<size_t>(fastest - verdict.same.begin());
  if (verdict.best.seconds > 0) verdict.speed_up = fastest->seconds / verdict.best.seconds;
  if (verdict.speed_up < kLeastBurstGain) verdict.no_gain = why_no_gain(verdict, parts, limit);
  return verdict;
}

}  // namespace estrain::plan
