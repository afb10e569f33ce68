#include "core/hosts/step/pieces.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

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

TEST_CASE("parameters that are left out are in no piece, and no piece reaches over one") {
  const std::vector<ParameterRange> parameters = parameters_of(kCutSizes);
  const std::vector<bool> left_out = {false, false, true, true, false, false, true};
  for (const size_t hosts : {1, 2, 3, 7}) {
    CAPTURE(hosts);
    std::vector<size_t> covered(parameters.back().end);
    for (const Piece& piece : cut_pieces(parameters, hosts, 128, left_out)) {
      CHECK(piece.owner < hosts);
      CHECK(piece.floats.begin % 64 == 0);
      for (size_t at = piece.floats.begin; at < piece.floats.end; ++at) ++covered[at];
      for (size_t i = piece.first_parameter; i < piece.last_parameter; ++i) CHECK(!left_out[i]);
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      CAPTURE(i);
      const auto begin = covered.begin() + static_cast<ptrdiff_t>(parameters[i].begin);
      const auto end = covered.begin() + static_cast<ptrdiff_t>(parameters[i].end);
      CHECK(std::all_of(begin, end, [&](size_t times) { return times == (left_out[i] ? 0 : 1); }));
    }
  }
  CHECK(cut_pieces(parameters, 2, 128, std::vector<bool>(parameters.size(), true)).empty());
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

// (0 + 1) + 2, whatever the number of floats.
comm::FinishPlan plan_of_three() {
  std::vector<EstRange> ranges;
  for (int64_t i = 0; i < 3; ++i) ranges.push_back({VirtualRank(i), VirtualRank(i + 1)});
  return comm::plan_finish(comm::SumOrder::tree, 3, ranges);
}

// Three partial sums of a job of `floats` floats, and of `parameters` parameters.
struct ThreeSums {
  ThreeSums(size_t floats, size_t parameters) {
    const float first[] = {1e8f, -1e8f, 1};
    for (size_t i = 0; i < 3; ++i) {
      values[i].assign(floats, first[i]);
      presence[i].assign(parameters, 1);
    }
  }
  std::vector<PieceSource> of(const Piece& piece) {
    std::vector<PieceSource> sources;
    for (size_t i = 0; i < 3; ++i)
      sources.push_back({values[i].data() + piece.floats.begin, presence[i].data() + piece.first_parameter});
    return sources;
  }
  std::array<std::vector<float>, 3> values;
  std::array<std::vector<uint8_t>, 3> presence;
};

Piece piece_over(size_t begin, size_t end, size_t first_parameter, size_t last_parameter) {
  Piece piece;
  piece.floats = {begin, end};
  piece.first_parameter = first_parameter;
  piece.last_parameter = last_parameter;
  return piece;
}

TEST_CASE("a piece is summed in the order of the plan, to its ends and no further") {
  const std::vector<ParameterRange> parameters = {{0, 9000}, {9024, 9100}};
  const Piece piece = piece_over(64, 9088, 0, 2);
  ThreeSums sums(9100, 2);
  std::vector<float> sum(9100, 7);
  sum_into(sum.data() + 64, plan_of_three(), sums.of(piece), piece, parameters);
  for (size_t i = 0; i < sum.size(); ++i) {
    CAPTURE(i);
    const bool is_in = (i >= 64 && i < 9000) || (i >= 9024 && i < 9088);
    REQUIRE(sum[i] == (is_in ? 1 : 7));  // 1e8 + (-1e8 + 1) is 0
  }
}

TEST_CASE("a sum in place stands where its left operand stood") {
  const Piece piece = piece_over(0, 5000, 0, 1);
  ThreeSums sums(5000, 1);
  sum_in_place(plan_of_three(), sums.of(piece), piece, {{0, 5000}});
  CHECK(sums.values[0] == std::vector<float>(5000, 1));
  CHECK(sums.values[1] == std::vector<float>(5000, -1e8f));
}

TEST_CASE("a source that is absent counts as nothing; a sum is present where any source is") {
  const std::vector<ParameterRange> parameters = {{0, 64}, {64, 128}, {128, 192}};
  const Piece piece = piece_over(64, 192, 1, 3);
  ThreeSums sums(192, 3);
  sums.presence[1][1] = 0;
  for (auto& flags : sums.presence) flags[2] = 0;
  std::vector<float> sum(128);
  sum_into(sum.data(), plan_of_three(), sums.of(piece), piece, parameters);
  CHECK(sum[0] == 1e8f + 1);
  CHECK(present_in_any(sums.of(piece), 0) == 1);
  CHECK(present_in_any(sums.of(piece), 1) == 0);
}

}  // namespace
}  // namespace estrain::hosts
