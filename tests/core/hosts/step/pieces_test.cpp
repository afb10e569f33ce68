#include "core/hosts/step/pieces.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace estrain::hosts {
namespace {

// Parameters of these sizes; each begins at a multiple of 64 floats.
std::vector<ParameterRange> parameters_of(const std::vector<size_t>& sizes) {
  std::vector<ParameterRange> parameters;
  size_t begin = 0;
  for (const size_t size : sizes) {
    parameters.push_back({begin, begin + size});
    begin = (begin + size + 63) / 64 * 64;
  }
  return parameters;
}

const std::vector<size_t> kCutSizes = {5, 1, 300, 4097, 64, 7, 20000};

TEST_CASE("pieces cover every float once, from the last to the first, and hosts own them in turn") {
  const std::vector<ParameterRange> parameters = parameters_of(kCutSizes);
  for (const size_t hosts : {1, 2, 3, 7}) {
    for (const size_t most : {64, 128, 1024, 65536}) {
      CAPTURE(hosts);
      CAPTURE(most);
      const std::vector<Piece> pieces = cut_pieces(parameters, hosts, most);
      size_t end = parameters.back().end;
      for (size_t i = 0; i < pieces.size(); ++i) {
        CHECK(pieces[i].owner < hosts);
        if (most > 64) CHECK(pieces[i].owner == i % hosts);  // some pieces of one unit would be empty, and are left out
        CHECK(pieces[i].floats.end == end);
        CHECK(pieces[i].floats.size() > 0);
        CHECK(pieces[i].floats.size() <= most);
        end = pieces[i].floats.begin;
        CHECK(end % 64 == 0);
      }
      CHECK(end == 0);
    }
  }
}

TEST_CASE("a piece names the parameters that have floats in it") {
  const std::vector<ParameterRange> parameters = parameters_of(kCutSizes);
  for (const Piece& piece : cut_pieces(parameters, 3, 128)) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const bool is_in = parameters[i].begin < piece.floats.end && parameters[i].end > piece.floats.begin;
      CHECK(is_in == (i >= piece.first_parameter && i < piece.last_parameter));
    }
  }
}

TEST_CASE("a piece counts its owner's pieces, floats and parameters before it") {
  const size_t hosts = 3;
  std::vector<Piece> totals(hosts);
  for (const Piece& piece : cut_pieces(parameters_of(kCutSizes), hosts, 128)) {
    Piece& before = totals[piece.owner];
    CHECK(piece.number == before.number++);
    CHECK(piece.floats_before == before.floats_before);
    CHECK(piece.parameters_before == before.parameters_before);
    before.floats_before += piece.floats.size();
    before.parameters_before += piece.parameters();
  }
}

TEST_CASE("shares of the hosts differ by at most 64 floats a piece; a host has several unless they are small") {
  for (const size_t hosts : {2, 3, 7}) {
    std::vector<size_t> floats(hosts), pieces(hosts);
    for (const Piece& piece : cut_pieces(parameters_of({1 << 20, 999}), hosts, 64 << 10)) {
      floats[piece.owner] += piece.floats.size();
      ++pieces[piece.owner];
    }
    CHECK(std::ranges::max(floats) - std::ranges::min(floats) <= 64 * std::ranges::max(pieces));
    CHECK(std::ranges::min(pieces) >= 4);
  }
  CHECK(cut_pieces(parameters_of({100}), 2, 64 << 10).size() == 2);
  CHECK(cut_pieces({}, 2, 64 << 10).empty());
}

}  // namespace
}  // namespace estrain::hosts
