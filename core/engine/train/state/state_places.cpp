#include "core/engine/train/state/state_places.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/engine/est/generator.h"
#include "core/state/checkpoint/state/est_streams.h"
#include "kernels/digest.h"
#include "kernels/optimizer.h"

namespace estrain::train {
namespace {

using checkpoint::DType;
using checkpoint::Role;

constexpr size_t kStateNumbers = 3;  // of a PlateauState, before the rates

}  // namespace

OptimizerPlaces::OptimizerPlaces(const optim::Optimizer& optimizer, const model::NamedTensors& tensors,
                                 checkpoint::StateLayout& layout) {
  for (size_t i = 0; i < tensors.parameters.size(); ++i) {
    const auto& [name, tensor] = tensors.parameters[i];
    slots_.emplace_back();
    for (const optim::SlotShape& slot : optimizer.slots(i, tensor.sizes().vec())) {
      const uint64_t offset = layout.append(Role::optimizer, name, std::string(slot.name), DType::f32, slot.sizes);
      slots_.back().push_back({offset, static_cast<size_t>(c10::multiply_integers(slot.sizes)), slot.sizes});
    }
    updates_.push_back(layout.append(Role::optimizer, name, std::string(optim::step_slot), DType::i64, {}));
  }
}

void OptimizerPlaces::copy_updates(std::byte* to, std::byte* from) const {
  for (size_t i = 0; i < updates_.size(); ++i) *updates(to, i) = *updates(from, i);
}

EstPlaces::EstPlaces(int64_t ests, const EstStreams& streams, checkpoint::StateLayout& layout)
    : has_cuda_streams_(streams.cuda), python_bytes_(streams.python_bytes) {
  for (int64_t rank = 0; rank < ests; ++rank) {
    const auto append = [&](std::string_view slot, size_t bytes) {
      return layout.append(Role::est, std::to_string(rank), std::string(slot), DType::u8,
                           {static_cast<int64_t>(bytes)});
    };
    Est& est = ests_.emplace_back();
    est.generator = append(checkpoint::generator_slot, est::generator_state_bytes());
    est.last_loss = layout.append(Role::est, std::to_string(rank), "loss", DType::f32, {});
    if (python_bytes_ > 0) est.python_streams = append(checkpoint::python_slot, python_bytes_);
    if (streams.cuda) est.cuda_generator = append(checkpoint::cuda_generator_slot, est::cuda_generator_state_bytes);
  }
}

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

AveragePlaces::AveragePlaces(const model::NamedTensors& tensors, checkpoint::StateLayout& layout) {
  for (const auto& [name, tensor] : tensors.parameters)
    at_.push_back(layout.append(checkpoint::Role::average, name, "", checkpoint::DType::f32, tensor.sizes().vec()));
}

uint64_t StatePlaces::digest_of_parameter(std::byte* base, size_t parameter) const {
  kernels::OptimizerDigest digest;
  digest.parameter = kernels::digest(model.parameter(base, parameter), model.elements(parameter) * sizeof(float));
  for (size_t k = 0; k < optimizer.num_slots(parameter); ++k)
    digest.slots[k] =
        kernels::digest(optimizer.slot(base, parameter, k), optimizer.slot_elements(parameter, k) * sizeof(float));
  return digest.combined();
}

}  // namespace estrain::train
