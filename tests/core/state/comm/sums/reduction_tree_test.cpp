#include "core/state/comm/sums/reduction_tree.h"

#include <doctest/doctest.h>

#include <bit>
#include <random>
#include <string>

#include "core/state/comm/sums/tree_cut.h"

namespace estrain::comm {
namespace {

// A sum as a formula instead of a number: "((0+1)+2)" for ESTs 0 to 2.
using Formula = std::string;

// The order as it is defined.
Formula tree(int64_t lo, int64_t hi) {
  if (hi - lo == 1) return std::to_string(lo);
  int64_t m = 1;
  while (2 * m < hi - lo) m *= 2;
  return "(" + tree(lo, lo + m) + "+" + tree(lo + m, hi) + ")";
}

Formula from_left(const std::vector<Formula>& terms) {
  Formula sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) sum = "(" + sum + "+" + terms[i] + ")";
  return sum;
}

// Executes a worker's plan on formulas and returns its final stack. It must not use more than `buffers` entries.
std::vector<Formula> follow_fold(const FoldPlan& plan, EstRange range) {
  REQUIRE(plan.arrivals.size() == static_cast<size_t>(range.size()));
  std::vector<Formula> stack(static_cast<size_t>(plan.buffers));
  int height = 0;
  for (size_t i = 0; i < plan.arrivals.size(); ++i) {
    const auto [depth, merges] = plan.arrivals[i];
    REQUIRE(depth == height);
    REQUIRE(merges <= depth);
    Formula sum = std::to_string(range.begin.value + static_cast<int64_t>(i));
    for (int k = depth - 1; k >= depth - merges; --k) sum = "(" + stack[static_cast<size_t>(k)] + "+" + sum + ")";
    REQUIRE(depth - merges < plan.buffers);
    stack[static_cast<size_t>(depth - merges)] = sum;
    height = depth - merges + 1;
  }
  REQUIRE(height == plan.passed_on);
  stack.resize(static_cast<size_t>(height));
  return stack;
}

Formula follow_finish(const FinishPlan& plan, const std::vector<std::vector<Formula>>& stacks) {
  std::vector<Formula> stack;
  size_t highest = 0, pushed = 0;
  for (const int instruction : plan.program) {
    if (instruction >= 0) {
      ++pushed;
      const FinishPlan::Source& source = plan.sources[static_cast<size_t>(instruction)];
      stack.push_back(stacks[static_cast<size_t>(source.worker.value)][static_cast<size_t>(source.slot)]);
    } else {
      REQUIRE(stack.size() >= 2);
      const Formula right = stack.back();
      stack.pop_back();
      stack.back() = "(" + stack.back() + "+" + right + ")";
    }
    highest = std::max(highest, stack.size());
  }
  REQUIRE(stack.size() == 1);
  CHECK(pushed == plan.sources.size());
  CHECK(highest == static_cast<size_t>(plan.depth));
  return stack[0];
}

Formula sum_over(SumOrder order, int64_t ests, const std::vector<EstRange>& ranges) {
  std::vector<std::vector<Formula>> stacks;
  for (const EstRange& range : ranges) stacks.push_back(follow_fold(plan_fold(order, ests, range), range));
  return follow_finish(plan_finish(order, ests, ranges), stacks);
}

std::vector<EstRange> random_split(int64_t ests, std::mt19937_64& random) {
  std::vector<EstRange> ranges;
  const auto cut_in = std::uniform_int_distribution<int>(1, 8)(random);
  int64_t begin = 0;
  for (int64_t rank = 1; rank <= ests; ++rank) {
    if (rank != ests && std::uniform_int_distribution<int>(1, cut_in)(random) != 1) continue;
    ranges.push_back({VirtualRank(begin), VirtualRank(rank)});
    begin = rank;
  }
  return ranges;
}

int floor_log2(int64_t value) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(value))) - 1; }

// Whether [lo, hi) is a node of tree(0, ests).
bool is_subtree(int64_t ests, EstRange range) {
  int64_t lo = 0, hi = ests;
  while (lo != range.begin.value || hi != range.end.value) {
    if (hi - lo == 1) return false;
    const int64_t middle = lo + static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(hi - lo)) / 2);
    (range.begin.value < middle ? hi : lo) = middle;
  }
  return true;
}

TEST_CASE("a node is cut behind the largest power of two below its size") {
  for (int64_t size = 2; size < 3000; ++size) {
    int64_t m = 1;
    while (2 * m < size) m *= 2;
    REQUIRE(middle_of(7, 7 + size) == 7 + m);
  }
}

TEST_CASE("the tree of a few ESTs") {
  CHECK(tree(0, 1) == "0");
  CHECK(tree(0, 2) == "(0+1)");
  CHECK(tree(0, 3) == "((0+1)+2)");
  CHECK(tree(0, 4) == "((0+1)+(2+3))");
  CHECK(tree(0, 7) == "(((0+1)+(2+3))+((4+5)+6))");
}

TEST_CASE("any contiguous split sums in the order of the tree") {
  std::mt19937_64 random(1);
  for (int64_t ests = 1; ests <= 64; ++ests) {
    const Formula expected = tree(0, ests);
    for (int round = 0; round < 60; ++round) {
      const std::vector<EstRange> ranges = random_split(ests, random);
      CAPTURE(ests);
      CAPTURE(ranges.size());
      REQUIRE(sum_over(SumOrder::tree, ests, ranges) == expected);
    }
    REQUIRE(sum_over(SumOrder::tree, ests, {{VirtualRank(0), VirtualRank(ests)}}) == expected);
  }
}

TEST_CASE("buffers and partial sums of every range stay within their bounds") {
  for (int64_t ests = 1; ests <= 64; ++ests) {
    for (int64_t begin = 0; begin < ests; ++begin) {
      for (int64_t end = begin + 1; end <= ests; ++end) {
        const EstRange range{VirtualRank(begin), VirtualRank(end)};
        const FoldPlan plan = plan_fold(SumOrder::tree, ests, range);
        const int log = floor_log2(range.size());
        const bool subtree = is_subtree(ests, range);
        CAPTURE(ests);
        CAPTURE(begin);
        CAPTURE(end);
        REQUIRE(plan.buffers <= (subtree ? 1 + log : 2 * log + 1));
        REQUIRE(plan.passed_on <= (subtree ? 1 : std::max(1, 2 * log)));
      }
    }
  }
}

TEST_CASE("left to right: within each worker, then over the workers, so that the split shows") {
  std::mt19937_64 random(2);
  for (int64_t ests = 1; ests <= 32; ++ests) {
    const std::vector<EstRange> ranges = random_split(ests, random);
    std::vector<Formula> parts;
    for (const EstRange& range : ranges) {
      std::vector<Formula> terms;
      for (int64_t rank = range.begin.value; rank < range.end.value; ++rank) terms.push_back(std::to_string(rank));
      parts.push_back(from_left(terms));
      CHECK(plan_fold(SumOrder::left_to_right, ests, range).buffers == 1);
    }
    CHECK(sum_over(SumOrder::left_to_right, ests, ranges) == from_left(parts));
  }
  const EstRange first{VirtualRank(0), VirtualRank(2)}, second{VirtualRank(2), VirtualRank(4)};
  CHECK(sum_over(SumOrder::left_to_right, 4, {first, second}) == "((0+1)+(2+3))");
  CHECK(sum_over(SumOrder::left_to_right, 4, {{VirtualRank(0), VirtualRank(4)}}) == "(((0+1)+2)+3)");
}

}  // namespace
}  // namespace estrain::comm
