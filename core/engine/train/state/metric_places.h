#pragma once
// The places of what the schedule "plateau" and the early stop know of past evaluations, in a copy of the state. Each
// has a place only if the job uses it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/engine/optim/plateau.h"
#include "core/job/spec/job_spec.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::train {

class MetricPlaces {
 public:
  // The schedule's state, and the learning rate of each parameter group.
  struct Plateau {
    optim::PlateauState state;
    std::vector<double> rates;
  };

  // Appends them to `layout`. `groups`: the optimizer's parameter groups. Throws Fault::spec if they need
  // evaluations and the job has none.
  MetricPlaces(const spec::JobSpec& spec, size_t groups, bool evaluates, checkpoint::StateLayout& layout);

  bool has_plateau() const { return plateau_at_.has_value(); }
  Plateau read_plateau(const std::byte* base) const;
  void write_plateau(std::byte* base, const Plateau& plateau) const;
  void copy_plateau(std::byte* to, const std::byte* from) const;  // if there is one
  double first_rate(const std::byte* base) const;                 // of parameter group 0

  bool has_early_stop() const { return early_stop_at_.has_value(); }
  // [0]: the best metric, [1]: the evaluations since then
  double* early_stop(std::byte* base) const { return reinterpret_cast<double*>(base + *early_stop_at_); }

 private:
  size_t plateau_bytes() const;

  size_t groups_;
  std::optional<uint64_t> plateau_at_, early_stop_at_;
};

}  // namespace estrain::train
