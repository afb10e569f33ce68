#include <doctest/doctest.h>

#include <array>

#include "core/hosts/step/pieces.h"

namespace estrain::hosts {
namespace {

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
