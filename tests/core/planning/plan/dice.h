#pragma once
// Random jobs and devices for property tests, from a seed.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/planning/plan/plan.h"

namespace estrain::plan {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int64_t upto(int64_t most) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(most + 1)); }
  int64_t between(int64_t least, int64_t most) { return least + upto(most - least); }
  bool heads() { return upto(1) == 1; }
  double real(double least, double most) {
    return least + (most - least) * static_cast<double>(engine_() >> 11) * 0x1p-53;
  }

 private:
  std::mt19937_64 engine_;
};

struct Limits {
  int64_t ests, devices, types;
};

struct RandomJob {
  PlannedJob job;
  std::vector<DeviceGroup> groups;
};

inline ExchangeCost random_exchange(Dice& dice) {
  const double scale = dice.heads() ? 1 : 0.05;
  const auto cost = [&](double most) { return dice.upto(2) == 0 ? 0 : scale * dice.real(0, most); };
  return {cost(1), cost(0.5), cost(1), cost(2)};
}

// Integers make many plans equally fast, other numbers hardly any plans; half of the jobs are at the limits.
inline RandomJob random_job(Dice& dice, Limits limits) {
  RandomJob made;
  const bool whole = dice.heads(), full = dice.heads();
  made.job.ests = full ? limits.ests : dice.between(1, limits.ests);
  made.job.one_kind = dice.upto(3) == 0;
  made.job.exchange = random_exchange(dice);
  for (int64_t w = dice.upto(4); w > 0; --w) made.job.crowding.push_back(dice.real(1, 1.6));
  int64_t devices = full ? limits.devices : dice.between(1, limits.devices);
  for (int64_t type = dice.between(1, limits.types); type > 0; --type) {
    DeviceGroup group;
    group.kind = "kind" + std::to_string(dice.upto(2));
    group.count = type == 1 ? devices : dice.upto(devices);
    devices -= group.count;
    group.mini_batches_per_second = whole ? static_cast<double>(dice.between(1, 4)) : dice.real(0.3, 4);
    if (dice.upto(3) == 0) group.most_ests = dice.upto(limits.ests / 2);
    made.groups.push_back(group);
  }
  return made;
}

}  // namespace estrain::plan
