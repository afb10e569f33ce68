#pragma once
// The job's optimizer: the optimizer's state for a parameter, and the update of a piece of a parameter.
//
// An Optimizer holds no tensors; the state lies in the arenas. Besides the slots named here, every parameter has an
// int64 scalar "step", the number of updates applied to the parameter (a parameter without a gradient is skipped, so
// "step" may be less than the job's step). The owner of a parameter increments "step" at every update.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/engine/optim/parameter_groups.h"
#include "core/job/spec/job_spec.h"
#include "kernels/average.h"
#include "kernels/device_updates.h"
#include "kernels/optimizer.h"

namespace estrain::optim {

inline constexpr std::string_view step_slot = "step";

// Properties of ATen's arithmetic that depend on the machine.
struct Arithmetic {
  kernels::Isa isa = kernels::best_isa();       // fused multiply-adds or not (kernels/isa.h)
  kernels::SquareRoots square_roots = nullptr;  // ATen's, or null for IEEE's (kernels/optimizer.h)
  bool portable = false;                        // the same bits on every instruction set (kernels/optimizer.h)
  bool as_on_cuda = false;                      // torch.optim's bits on a CUDA device (kernels/optimizer.h)
};

// The kernel settings of one of the optimizers.
template <typename List>
struct OneOf;
template <typename... Each>
struct OneOf<kernels::OptimizerList<Each...>> {
  using Type = std::variant<Each...>;
};
using Settings = OneOf<kernels::Optimizers>::Type;

// The settings of one update of an optimizer that updates whole parameters, with torch.optim's names. `lr` is the
// learning rate of the update, `step` the number of the parameter's update, from 1. The computations are in
// engine/train/shared/whole_update.h.

// Slots: exp_avg, exp_avg_sq.
struct Lamb {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  bool trust_clip = false, always_adapt = false;
  int64_t step = 1;
};

// Slots: row_var, col_var of a parameter with several dimensions; otherwise variance.
struct Adafactor {
  double lr = 0, beta2_decay = 0, eps1 = 0, eps2 = 0, d = 1, weight_decay = 0;
  int64_t step = 1;
};

// Slot: momentum_buffer. Of parameters with two dimensions.
struct Muon {
  double lr = 0, momentum = 0, eps = 0, weight_decay = 0;
  bool nesterov = true;
  std::vector<double> coefficients = {};
  int64_t iterations = 0;
  spec::AdjustLr adjust = spec::AdjustLr::original;
  bool in_bfloat16 = true;  // the iteration, as torch.optim's; otherwise in float32
};

using WholeSettings = std::variant<Lamb, Adafactor, Muon>;

// A SlotShape describes an array of the optimizer's state for a parameter.
struct SlotShape {
  std::string_view name;
  std::vector<int64_t> sizes;

  bool operator==(const SlotShape&) const = default;
};

class Optimizer {
 public:
  // `arithmetic` affects the bits. Throws Fault::spec for combinations of settings that torch.optim refuses.
  Optimizer(const spec::OptimizerSection& section, ParameterGroups groups, const Arithmetic& arithmetic = {});

  const ParameterGroups& groups() const { return groups_; }

  // Returns the slots of a parameter of these sizes, at most kernels::most_slots, in the order of the settings' slots.
  // The slots of a parameter that is updated in pieces have the parameter's sizes.
  std::vector<SlotShape> slots(size_t parameter, const std::vector<int64_t>& sizes) const;
  // Throws Fault::spec, naming parameters, if an optimizer does not take the parameters that the spec gives it.
  void require_fit(const std::vector<std::string>& names, const std::vector<std::vector<int64_t>>& sizes) const;

  // Returns whether an update needs the whole parameter: norms, means over rows, products of matrices.
  bool updates_whole(size_t parameter) const;
  bool updates_some_whole() const;
  // Returns the settings of an update of such a parameter. Arguments as for update().
  WholeSettings whole_settings(size_t parameter, int64_t updates_before, double lr) const;

  // The following functions are for parameters that are updated in pieces.

  // Updates a piece of a parameter after `updates_before` earlier updates, with the current `lr` of the parameter's
  // group.
  kernels::OptimizerDigest update(size_t parameter, int64_t updates_before, double lr,
                                  const kernels::OptimizerPiece& piece) const;
  // Returns whether such an update leaves parameter and slots as they are where the gradient is +0 and all are finite.
  bool rests_on_zeros(size_t parameter, int64_t updates_before, double lr) const;
  // Updates in a device's memory, in the device's queue, with IEEE square roots and fused multiply-adds, for pieces of
  // parameters with the same `group` and number of earlier updates. gradient_factor: kernels/device_updates.h.
  void update_on_device(size_t group, int64_t updates_before, double lr, std::span<const kernels::UpdatePiece> pieces,
                        const float* gradient_factor, const kernels::DeviceQueue& queue) const;

  // Returns the fixed part of the arithmetic for averages of the parameters.
  kernels::Averaging averaging(double decay) const { return {1 - decay, arithmetic_.isa, arithmetic_.portable}; }

 private:
  // Returns the optimizer with the group's settings: the job's, or one with defaults.
  const spec::OptimizerSection& section_of(const GroupSettings& group) const;
  Settings settings(const GroupSettings& group, int64_t updates_before, double lr) const;

  spec::OptimizerSection section_;
  std::vector<spec::OptimizerSection> with_defaults_;  // of each kind
  ParameterGroups groups_;
  Arithmetic arithmetic_;
};

}  // namespace estrain::optim
