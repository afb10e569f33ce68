#include "core/engine/train/state/metric_places.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace estrain::train {
namespace {

using checkpoint::DType;
using checkpoint::Role;

constexpr size_t kStateNumbers = 3;  // of a PlateauState, before the rates

}  // namespace

MetricPlaces::MetricPlaces(const spec::JobSpec& spec, size_t groups, bool evaluates, checkpoint::StateLayout& layout)
    : groups_(groups) {
  if (spec.schedule.name == spec::ScheduleKind::plateau) {
    if (!evaluates)
      throw Error(Fault::spec, "schedule.name: plateau goes by evaluations, and there are no test data")
          .advise("give data for evaluation, or another schedule");
    const auto numbers = static_cast<int64_t>(kStateNumbers + groups);
    plateau_at_ = layout.append(Role::schedule, "plateau", "", DType::f64, {numbers});
  }
  if (spec.early_stop.patience > 0) {
    if (!evaluates)
      throw Error(Fault::spec, "early_stop.patience: goes by evaluations, and there are no test data")
          .advise("give data for evaluation, or leave it out");
    early_stop_at_ = layout.append(Role::schedule, std::string(checkpoint::early_stop_name), "", DType::f64, {2});
  }
}

size_t MetricPlaces::plateau_bytes() const { return (kStateNumbers + groups_) * sizeof(double); }

MetricPlaces::Plateau MetricPlaces::read_plateau(const std::byte* base) const {
  const auto* at = reinterpret_cast<const double*>(base + *plateau_at_);
  return {{at[0], at[1], at[2]}, {at + kStateNumbers, at + kStateNumbers + groups_}};
}

void MetricPlaces::write_plateau(std::byte* base, const Plateau& plateau) const {
  auto* to = reinterpret_cast<double*>(base + *plateau_at_);
  to[0] = plateau.state.best, to[1] = plateau.state.bad, to[2] = plateau.state.cooldown;
  std::ranges::copy(plateau.rates, to + kStateNumbers);
}

void MetricPlaces::copy_plateau(std::byte* to, const std::byte* from) const {
  if (plateau_at_) std::memcpy(to + *plateau_at_, from + *plateau_at_, plateau_bytes());
}

double MetricPlaces::first_rate(const std::byte* base) const {
  return reinterpret_cast<const double*>(base + *plateau_at_)[kStateNumbers];
}

}  // namespace estrain::train
