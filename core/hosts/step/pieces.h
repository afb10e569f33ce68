#pragma once
// The parameters of a job, cut into pieces for the exchange between hosts. All hosts cut alike.
//
// The pieces go from the last parameter to the first, about in the order in which a backward pass completes gradients.
// Hosts own pieces in turn, so at any time all hosts have about as much to send, to sum and to receive.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/hosts/exchange/shared_parts.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::hosts {

struct Piece {
  size_t owner = 0;  // the host that finishes the tree over the piece
  ParameterRange floats;
  size_t first_parameter = 0, last_parameter = 0;  // [first, last) have floats in the piece
  // The owner's pieces before this piece: number of pieces, and their floats and parameters together.
  size_t number = 0, floats_before = 0, parameters_before = 0;

  size_t parameters() const { return last_parameter - first_parameter; }
};

// `most`: floats of a piece, a multiple of 64. Shares of the hosts differ by at most 64 floats a piece. `left_out`:
// parameters in no piece, [parameter]; no piece reaches from before such a parameter to behind it. Empty: none.
std::vector<Piece> cut_pieces(const std::vector<ParameterRange>& parameters, size_t hosts, size_t most,
                              const std::vector<bool>& left_out = {});

// The functions below sum one piece of the parameters, in the order that a plan states
// (core/state/comm/sums/reduction_tree.h), a few thousand floats at a time: these stay in a cache.

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
