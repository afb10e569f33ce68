#include "core/hosts/step/pieces.h"

#include <algorithm>

#include "core/state/comm/meetings/sum_progress.h"

namespace estrain::hosts {
namespace {

constexpr size_t kUnit = comm::SumProgress::floats_of_unit;
// A host has this many pieces unless they become too small: the host can send the first while the last is not folded.
constexpr size_t kFewest = 4, kSmall = 8 << 10;

size_t divided_up(size_t value, size_t by) { return (value + by - 1) / by; }

size_t pieces_of_host(size_t floats, size_t hosts, size_t most) {
  const size_t at_most_so_large = divided_up(floats, hosts * most);
  return std::max(at_most_so_large, std::min(kFewest, divided_up(floats, hosts * kSmall)));
}

void note_parameters(const std::vector<ParameterRange>& parameters, Piece& piece) {
  const auto first = std::ranges::upper_bound(parameters, piece.floats.begin, {}, &ParameterRange::end);
  const auto last = std::ranges::lower_bound(parameters, piece.floats.end, {}, &ParameterRange::begin);
  piece.first_parameter = static_cast<size_t>(first - parameters.begin());
  piece.last_parameter = static_cast<size_t>(last - parameters.begin());
}

}  // namespace

std::vector<Piece> cut_pieces(const std::vector<ParameterRange>& parameters, size_t hosts, size_t most) {
  const size_t floats = parameters.empty() ? 0 : parameters.back().end;
  const size_t count = hosts * pieces_of_host(floats, hosts, most), units = divided_up(floats, kUnit);
  const auto cut = [&](size_t at) { return std::min(floats, units * at / count * kUnit); };
  std::vector<Piece> pieces, totals(hosts);
  for (size_t i = 0; i < count; ++i) {
    Piece piece = totals[i % hosts];
    piece.owner = i % hosts;
    piece.floats = {cut(count - 1 - i), cut(count - i)};
    if (piece.floats.size() == 0) continue;
    note_parameters(parameters, piece);
    pieces.push_back(piece);
    Piece& total = totals[piece.owner];
    ++total.number;
    total.floats_before += piece.floats.size();
    total.parameters_before += piece.parameters();
  }
  return pieces;
}

}  // namespace estrain::hosts
