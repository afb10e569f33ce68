#pragma once
// The parameters of a job, cut into pieces for the exchange between hosts. All hosts cut alike.
//
// The pieces go from the last parameter to the first, about in the order in which a backward pass completes gradients.
// Hosts own pieces in turn, so at any time all hosts have about as much to send, to sum and to receive.

#include <cstddef>
#include <vector>

#include "core/hosts/exchange/shared_parts.h"

namespace estrain::hosts {

struct Piece {
  size_t owner = 0;  // the host that finishes the tree over the piece
  ParameterRange floats;
  size_t first_parameter = 0, last_parameter = 0;  // [first, last) have floats in the piece
  // The owner's pieces before this piece: number of pieces, and their floats and parameters together.
  size_t number = 0, floats_before = 0, parameters_before = 0;

  size_t parameters() const { return last_parameter - first_parameter; }
};

// `most`: floats of a piece, a multiple of 64. Shares of the hosts differ by at most 64 floats a piece.
std::vector<Piece> cut_pieces(const std::vector<ParameterRange>& parameters, size_t hosts, size_t most);

}  // namespace estrain::hosts
