#pragma once
// The sum of one piece of the parameters, in the order that a plan states (core/state/comm/sums/reduction_tree.h).
// Processes a few thousand floats at a time, which stay in a cache.

#include <cstdint>
#include <vector>

#include "core/hosts/step/pieces.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::hosts {

// A partial sum of a piece.
struct PieceSource {
  float* values = nullptr;            // [floats of the piece]
  const uint8_t* presence = nullptr;  // [parameters of the piece]; 0: absent
};

// Runs the program of `plan` over `sources`, in the order of plan.sources. Each sum is written over its left operand.
// `parameters`: of the job.
void sum_in_place(const comm::FinishPlan& plan, const std::vector<PieceSource>& sources, const Piece& piece,
                  const std::vector<ParameterRange>& parameters);
// Does the same, and copies the sum at the bottom of the plan's stack to `sum`, which may be the values of a
// source.
void sum_into(float* sum, const comm::FinishPlan& plan, const std::vector<PieceSource>& sources, const Piece& piece,
              const std::vector<ParameterRange>& parameters);

// Returns 1 if parameter `i` of the piece is present in a source, else 0.
uint8_t present_in_any(const std::vector<PieceSource>& sources, size_t i);

}  // namespace estrain::hosts
