#include "core/planning/plan/burst.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/base/error.h"

namespace estrain::plan {
namespace {

// Numbers of devices are 2^k; the search uses the exponents k.
struct BurstPath {
  double seconds = std::numeric_limits<double>::infinity();
  std::vector<size_t> exponents;  // of each layer
};

int64_t devices_of_exponent(size_t exponent) { return int64_t{1} << exponent; }

class BurstSearch {
 public:
  BurstSearch(const BurstNetwork& network, double limit) : network_(network), limit_(limit) {}

  BurstStep step(const BurstLayer& layer, std::optional<size_t> from, size_t to) const {
    BurstStep step{.layer = layer.name, .devices = devices_of_exponent(to), .compute = layer.compute[to]};
    if (from) step.transfer = transfer_seconds(network_, layer.input_bytes, devices_of_exponent(*from), step.devices);
    if (to == 0 || layer.parameter_bytes <= 0) return step;
    const BurstSync sync = layer.sync.empty() ? BurstSync{layer.parameter_bytes} : layer.sync[to];
    step.sync = network_.delay + sync.bytes / network_.bandwidth + sync.product_seconds;
    step.factored = sync.factored;
    return step;
  }

  // Returns the shortest path through a chain to each number of devices.
  std::vector<BurstPath> chain(const BurstChain& layers, std::optional<size_t> from) const {
    std::vector<BurstPath> paths;
    for (const BurstLayer& layer : layers) paths = extend(layer, paths, from);
    return paths;
  }

  // Returns the shortest paths through a part that begins at `from`.
  std::vector<BurstPath> part(const BurstPart& part, std::optional<size_t> from) const {
    std::vector<BurstPath> all;
    for (const BurstChain& branch : part.branches) {
      const std::vector<BurstPath> paths = chain(branch, from);
      if (all.empty()) {
        all = paths;
        continue;
      }
      for (size_t to = 0; to < all.size(); ++to) append(all[to], paths[to]);
    }
    return all;
  }

  static void append(BurstPath& path, const BurstPath& more) {
    path.seconds += more.seconds;
    path.exponents.insert(path.exponents.end(), more.exponents.begin(), more.exponents.end());
  }

 private:
  std::vector<BurstPath> extend(const BurstLayer& layer, const std::vector<BurstPath>& before,
                                std::optional<size_t> from) const {
    std::vector<BurstPath> paths(layer.compute.size());
    for (size_t to = 0; to < paths.size(); ++to) {
      std::optional<size_t> best;
      const size_t origins = before.empty() ? 1 : before.size();
      for (size_t origin = 0; origin < origins; ++origin) {
        const BurstStep taken = step(layer, before.empty() ? from : std::optional(origin), to);
        if (taken.seconds() * static_cast<double>(taken.devices) > limit_ * layer.compute[0]) continue;
        const double seconds = taken.seconds() + (before.empty() ? 0 : before[origin].seconds);
        if (seconds < paths[to].seconds) paths[to].seconds = seconds, best = origin;
      }
      if (!best) continue;
      if (!before.empty()) paths[to].exponents = before[*best].exponents;
      paths[to].exponents.push_back(to);
    }
    return paths;
  }

  const BurstNetwork& network_;
  double limit_;
};

void check_layers(const std::vector<BurstPart>& parts) {
  size_t counts = 0;
  for (const BurstPart& part : parts) {
    if (part.branches.empty()) throw Error(Fault::spec, "a block has no branches");
    for (const BurstChain& branch : part.branches) {
      if (branch.empty()) throw Error(Fault::spec, "a branch has no layers");
      for (const BurstLayer& layer : branch) {
        if (counts == 0) counts = layer.compute.size();
        if (layer.compute.empty() || layer.compute.size() != counts) {
          throw Error::make(Fault::spec, "layer {} has times for {} numbers of devices, others for {}", layer.name,
                            layer.compute.size(), counts);
        }
        if (std::ranges::all_of(layer.compute, [](double time) { return std::isfinite(time) && time >= 0; })) continue;
        throw Error::make(Fault::spec, "layer {} has a time that is not a number of seconds >= 0", layer.name);
      }
    }
  }
  if (parts.empty()) throw Error(Fault::spec, "there are no layers");
}

// Returns the plan along a path, step by step; branches begin where the previous part ended.
BurstPlan follow(const std::vector<BurstPart>& parts, const BurstNetwork& network,
                 const std::vector<size_t>& exponents) {
  const BurstSearch search(network, 0);
  BurstPlan plan;
  double alone = 0;
  size_t next = 0;
  std::optional<size_t> before;
  for (const BurstPart& part : parts) {
    std::optional<size_t> end;
    for (const BurstChain& branch : part.branches) {
      std::optional<size_t> from = before;
      for (const BurstLayer& layer : branch) {
        plan.steps.push_back(search.step(layer, from, exponents[next]));
        alone += layer.compute[0];
        from = end = exponents[next++];
      }
    }
    before = end;
  }
  for (const BurstStep& step : plan.steps) {
    plan.seconds += step.seconds();
    plan.device_seconds += step.seconds() * static_cast<double>(step.devices);
  }
  plan.amplification = alone > 0 ? plan.device_seconds / alone : 1;
  return plan;
}

}  // namespace

double transfer_seconds(const BurstNetwork& network, double input_bytes, int64_t from, int64_t to) {
  if (from == to) return 0;
  const auto fewer = static_cast<double>(std::min(from, to)), more = static_cast<double>(std::max(from, to));
  return network.delay + 2 * input_bytes * (1 / fewer - 1 / more) / network.bandwidth;
}

BurstPlan best_burst_plan(const std::vector<BurstPart>& parts, const BurstNetwork& network, double limit) {
  if (!(limit >= 1))
    throw Error::make(Fault::usage, "an amplification limit of {} is below 1: one device has 1", limit);
  check_layers(parts);
  const BurstSearch search(network, limit);
  std::vector<BurstPath> paths;
  for (const BurstPart& part : parts) {
    if (paths.empty()) {
      paths = search.part(part, std::nullopt);
      continue;
    }
    std::vector<BurstPath> longer(paths.size());
    for (size_t from = 0; from < paths.size(); ++from) {
      if (!std::isfinite(paths[from].seconds)) continue;
      const std::vector<BurstPath> through = search.part(part, from);
      for (size_t to = 0; to < paths.size(); ++to) {
        if (paths[from].seconds + through[to].seconds >= longer[to].seconds) continue;
        longer[to] = paths[from];
        BurstSearch::append(longer[to], through[to]);
      }
    }
    paths = std::move(longer);
  }
  return follow(parts, network, std::ranges::min_element(paths, {}, &BurstPath::seconds)->exponents);
}

BurstPlan data_parallel_plan(const std::vector<BurstPart>& parts, const BurstNetwork& network, int64_t devices) {
  check_layers(parts);
  size_t exponent = 0, layers = 0;
  while (devices_of_exponent(exponent) < devices) ++exponent;
  for (const BurstPart& part : parts) {
    for (const BurstChain& branch : part.branches) layers += branch.size();
  }
  if (devices_of_exponent(exponent) != devices || exponent >= parts[0].branches[0][0].compute.size()) {
    throw Error::make(Fault::usage, "{} devices: the layers have no times for this many", devices);
  }
  return follow(parts, network, std::vector<size_t>(layers, exponent));
}

bool is_within(const BurstPlan& plan, const std::vector<BurstPart>& parts, double limit) {
  size_t next = 0;
  for (const BurstPart& part : parts) {
    for (const BurstChain& branch : part.branches) {
      for (const BurstLayer& layer : branch) {
        const BurstStep& step = plan.steps[next++];
        if (step.seconds() * static_cast<double>(step.devices) > limit * layer.compute[0]) return false;
      }
    }
  }
  return true;
}

}  // namespace estrain::plan
