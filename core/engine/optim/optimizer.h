#pragma once
// The job's optimizer: the optimizer's state for a parameter, and the update of a piece of a parameter.
//
// An Optimizer holds no tensors; the state lies in the arenas. Besides the slots named here, every parameter has an
// int64 scalar "step", the number of updates applied to the parameter (a parameter without a gradient is skipped, so
// "step" may be less than the job's step). The owner of a parameter increments "step" at every update.

#include <cstdint>
#include <span>
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

class Optimizer {
 public:
  // `arithmetic` affects the bits. Throws Fault::spec for combinations of settings that torch.optim refuses.
  Optimizer(const spec::OptimizerSection& section, ParameterGroups groups, const Arithmetic& arithmetic = {});

  const ParameterGroups& groups() const { return groups_; }

  // Returns the names of the slots with the parameter's shape, in the order of OptimizerPiece::slots; at most
  // kernels::most_slots.
  std::vector<std::string_view> slots(size_t parameter) const;

  // Updates a piece of a parameter after `updates_before` earlier updates, with the current `lr` of the parameter's
  // group.
  kernels::OptimizerDigest update(size_t parameter, int64_t updates_before, double lr,
                                  const kernels::OptimizerPiece& piece) const;
  // Updates in a device's memory, in the device's queue, with IEEE square roots and fused multiply-adds, for pieces of
  // parameters with the same `group` and number of earlier updates. gradient_factor: kernels/device_updates.h.
  void update_on_device(size_t group, int64_t updates_before, double lr, std::span<const kernels::UpdatePiece> pieces,
                        const float* gradient_factor, const kernels::DeviceQueue& queue) const;

  // Returns the fixed part of the arithmetic for averages of the parameters.
  kernels::Averaging averaging(double decay) const { return {1 - decay, arithmetic_.isa, arithmetic_.portable}; }

 private:
  Settings settings(const GroupSettings& group, int64_t updates_before, double lr) const;

  spec::OptimizerSection section_;
  ParameterGroups groups_;
  Arithmetic arithmetic_;
};

}  // namespace estrain::optim
