#include "core/planning/plan/equations.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace estrain::plan {
namespace {

void check(const TypeConfiguration& type) {
  if (type.devices < 0 || type.ests_each < 0) {
    throw Error::make(Fault::infeasible, "{} devices with {} ESTs each: both must be at least 0", type.devices,
                      type.ests_each)
        .advise("leave the type out");
  }
  if (type.devices > 0 && !(std::isfinite(type.mini_batches_per_second) && type.mini_batches_per_second > 0)) {
    throw Error::make(Fault::infeasible, "{} mini-batches per second: must be a positive finite number",
                      type.mini_batches_per_second)
        .advise("have the job profiled again");
  }
}

}  // namespace

Estimate estimate(const std::vector<TypeConfiguration>& types, int64_t max_parallelism) {
  Estimate result;
  for (const TypeConfiguration& type : types) {
    check(type);
    result.ests += type.devices * type.ests_each;
    if (type.devices == 0) continue;
    const double overload = static_cast<double>(type.ests_each) / type.mini_batches_per_second;
    result.f_overload = std::max(result.f_overload, overload);
  }
  if (max_parallelism < 1 || result.ests < max_parallelism) {
    throw Error::make(Fault::infeasible, "room for {} ESTs: the job's maximum parallelism is {}", result.ests,
                      max_parallelism)
        .advise("give more devices, or more ESTs to each; a job has at least one EST");
  }
  double rates = 0;
  for (const TypeConfiguration& type : types) {
    if (type.devices == 0) continue;
    const auto devices = static_cast<double>(type.devices);
    rates += devices * type.mini_batches_per_second;
    const double used = static_cast<double>(type.ests_each) / result.f_overload;
    result.waste += devices * (type.mini_batches_per_second - used);
  }
  result.waste += static_cast<double>(result.ests - max_parallelism) / result.f_overload;
  result.throughput = rates - result.waste;
  return result;
}

}  // namespace estrain::plan
