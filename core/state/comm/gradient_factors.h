#pragma once
// Factors of gradients, in a job over several hosts. The gradient of a matrix for one mini-batch is a product of two
// arrays: of a dense layer, the gradients of its outputs and its inputs, a row for each row of the mini-batch. If both
// arrays together are much smaller than the matrix, hosts send the arrays of each EST to each other in place of partial
// sums, and each host computes the other hosts' gradients by the operator of the backward pass, with the same bits.
// ("Sufficient factors": P. Xie et al., "Lighter-Communication Distributed Machine Learning via Sufficient Factor
// Broadcasting", UAI 2016; H. Zhang et al., "Poseidon", USENIX ATC 2017, section 3.2.)
//
// The factors of a step are in the last gradient slot. The workers of a host have fewer ESTs than a job over several
// hosts, so no worker folds into this slot. The place of each parameter in the slot is cut into equal parts, one for
// each EST: a FactorHead, the left array, the right array, each at a multiple of 64 bytes.
//
// 1. In the first three steps of a stage all gradients are summed as partial sums. In the third the first worker of
//    each host writes a FactorHead for the host's first EST and each parameter. A head with `bytes` is an offer: it has
//    the size of a full mini-batch's factors, and, if they fit in their place, the time that a product takes. (In
//    earlier steps the processes' memory is new to them, and slow.)
// 2. With the results of this step the couriers gather the offers of all hosts. By the same rule all hosts choose the
//    same parameters (core/planning/plan/factors.h). The presence flags of the slot say which.
// 3. In each later step of the stage the workers write the factors of each chosen parameter during the backward pass,
//    and the couriers send them.

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/ids.h"
#include "core/state/comm/job_memory.h"

namespace estrain::comm {

inline constexpr int64_t kStepsBeforeFactors = 3;  // of a stage

// How a gradient follows from its factors (core/engine/train/shared/gradient_factors.h).
enum class FactorForm : uint32_t { none, linear, transposed_weight, weight, embedding };

struct FactorHead {
  FactorForm form = FactorForm::none;
  float seconds = 0;  // an offer: the time to compute the gradient
  int64_t rows = 0;   // an offer: of a full mini-batch
  // Elements from row to row and from column to column; of an embedding, `right` is a list of rows of the table.
  std::array<int64_t, 2> left_strides = {}, right_strides = {};
  int64_t padding = -1;              // an embedding's row without a gradient; -1: none
  uint32_t bytes = 0;                // an offer: of the factors of an EST, with this head
  uint32_t scales_by_frequency = 0;  // an embedding's
};
static_assert(sizeof(FactorHead) == 64);

// The part of an EST in the place of a parameter.
class FactorPlaces {
 public:
  // `begin`, `size`: the parameter's floats in a gradient slot.
  FactorPlaces(JobMemory& memory, size_t begin, size_t size)
      : slot_(memory.gradients()[memory.ests() - 1]),
        begin_(begin),
        floats_(size / static_cast<size_t>(memory.ests()) / floats_of_unit * floats_of_unit) {}

  // Returns whether the place of a parameter of `size` floats can have factors at all.
  static bool can_hold(size_t size, int64_t ests) { return size / static_cast<size_t>(ests) >= least_floats; }
  static constexpr size_t floats_of_unit = 16;  // 64 bytes
  static constexpr size_t least_floats = 256;

  size_t capacity() const { return floats_ * sizeof(float); }  // bytes
  std::byte* at(VirtualRank rank) const {
    return reinterpret_cast<std::byte*>(slot_.values + begin_ + static_cast<size_t>(rank.value) * floats_);
  }
  FactorHead& head(VirtualRank rank) const { return *reinterpret_cast<FactorHead*>(at(rank)); }

 private:
  GradientSlot slot_;
  size_t begin_, floats_;
};

// Which parameters' factors are sent. [parameters]: 1 if chosen. The courier writes the flags after the passes of the
// third step, before it answers the request for sums.
inline uint8_t* chosen_factors(JobMemory& memory) { return memory.gradients()[memory.ests() - 1].presence; }

// Returns the bytes of the place of an array: places begin at multiples of 64 bytes.
constexpr size_t factor_bytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace estrain::comm
