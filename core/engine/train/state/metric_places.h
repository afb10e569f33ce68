#pragma once
// The places for past evaluations in a copy of the state: the knowledge of schedule "plateau" and of the early stop.
// Schedule and early stop each have a place only if the job uses them.

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

  // Appends the places to `layout`. `groups`: the optimizer's parameter groups. Throws Fault::spec if a place needs
  // evaluations and the job has none.
  MetricPlaces(const spec::JobSpec& spec, size_t groups, bool evaluates, checkpoint::StateLayout& layout);

  bool has_plateau() const { return plateau_at_.has_value(); }
  Plateau read_plateau(const std::byte* base) const;
  void write_plateau(std::byte* base, const Plateau& plateau) const;
  void copy_plateau(std::byte* to, const std::byte* from) const;  // does nothing without plateau
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
