#include "core/state/comm/sums/reduction_tree.h"

#include <algorithm>

#include "core/state/comm/sums/tree_cut.h"

namespace estrain::comm {
namespace {

struct Node {
  int64_t lo, hi;
};

// Tells whether left and right, neighbours, are the two children of one node of tree(0, ests).
bool siblings(int64_t ests, Node left, Node right) {
  Node node{0, ests};
  while (node.hi - node.lo > 1) {
    const int64_t middle = middle_of(node.lo, node.hi);
    if (middle == left.hi) return node.lo == left.lo && node.hi == right.hi;
    node = left.hi < middle ? Node{node.lo, middle} : Node{middle, node.hi};
  }
  return false;
}

// Merges the top of the stack as far as the order allows; returns how many merges were made.
int settle(SumOrder order, int64_t ests, std::vector<Node>& stack) {
  int merges = 0;
  while (stack.size() > 1) {
    const Node right = stack.back(), left = stack[stack.size() - 2];
    if (order == SumOrder::tree && !siblings(ests, left, right)) break;
    stack.pop_back();
    stack.back().hi = right.hi;
    ++merges;
  }
  return merges;
}

std::vector<Node> fold(SumOrder order, int64_t ests, EstRange range, FoldPlan* plan) {
  std::vector<Node> stack;
  for (int64_t rank = range.begin.value; rank < range.end.value; ++rank) {
    const int depth = static_cast<int>(stack.size());
    stack.push_back({rank, rank + 1});
    const int merges = settle(order, ests, stack);
    if (plan == nullptr) continue;
    plan->arrivals.push_back({depth, merges});
    plan->buffers = std::max(plan->buffers, static_cast<int>(stack.size()));
  }
  return stack;
}

}  // namespace

FoldPlan plan_fold(SumOrder order, int64_t ests, EstRange range) {
  FoldPlan plan;
  plan.passed_on = static_cast<int>(fold(order, ests, range, &plan).size());
  return plan;
}

std::vector<int64_t> first_slots(SumOrder order, int64_t ests, const std::vector<EstRange>& ranges) {
  std::vector<int64_t> slots = {0};
  for (const EstRange& range : ranges) slots.push_back(slots.back() + plan_fold(order, ests, range).buffers);
  return slots;
}

FinishPlan plan_finish(SumOrder order, int64_t ests, const std::vector<EstRange>& ranges) {
  FinishPlan plan;
  std::vector<Node> stack;
  int height = 0;
  for (size_t worker = 0; worker < ranges.size(); ++worker) {
    const std::vector<Node> passed_on = fold(order, ests, ranges[worker], nullptr);
    for (size_t slot = 0; slot < passed_on.size(); ++slot) {
      plan.program.push_back(static_cast<int>(plan.sources.size()));
      plan.sources.push_back({WorkerRank(static_cast<int64_t>(worker)), static_cast<int>(slot)});
      stack.push_back(passed_on[slot]);
      height = static_cast<int>(stack.size());
      plan.depth = std::max(plan.depth, height);
      plan.program.insert(plan.program.end(), static_cast<size_t>(settle(order, ests, stack)), -1);
    }
  }
  return plan;
}

}  // namespace estrain::comm
