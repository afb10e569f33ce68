#pragma once
// The order of summing the gradients of all ESTs: fixed by the number of ESTs N alone. Placement leaves no trace in the
// bits.
//
//   tree(lo, hi) = tree(lo, lo + m) + tree(lo + m, hi),   m = the largest power of two below hi - lo
//
// A worker with ESTs [a, b) folds as much as it can alone: it keeps a stack of partial sums, and whenever the two
// topmost sums are the two children of a node of the tree, both become the node. The rest of the stack is passed on;
// the owner of a piece of the parameters finishes the tree over the stacks of all workers. Two ESTs give the bits of
// DDP with two ranks.
//
// D0 (EasyScale section 3.3) sums left to right within a worker and then over workers instead: cheaper on a few
// transports, but its bits depend on the placement.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace estrain::comm {

enum class SumOrder { tree, left_to_right };

// The most partial sums on a stack: for a tree over 2^63 ESTs.
inline constexpr size_t kDeepestStack = 64;

// A worker's plan for the gradients of the worker's ESTs, in order of virtual rank.
struct FoldPlan {
  struct EstArrival {
    int depth;   // partial sums on the stack before this EST's gradient
    int merges;  // topmost partial sums completed by the EST: s[depth-merges] = s[depth-merges] + (… + (s[depth-1] +
                 // g)). 0: g becomes s[depth]
  };
  std::vector<EstArrival> arrivals;  // one per EST of the range
  int passed_on = 0;                 // partial sums left on the stack at the end
  int buffers = 0;                   // largest height the stack reaches
};

FoldPlan plan_fold(SumOrder order, int64_t ests, EstRange range);

// The gradient slots of a host's workers: the first slot of each worker, and then the number of all slots. A worker has
// as many slots as its stack gets high.
std::vector<int64_t> first_slots(SumOrder order, int64_t ests, const std::vector<EstRange>& ranges);

// The way from the partial sums of all workers to the sum: a postfix program over `sources` (worker by worker, bottom
// of the stack first). Entry >= 0: push the source; -1: replace the two topmost by left + right.
struct FinishPlan {
  struct Source {
    WorkerRank worker;
    int slot;  // place on the worker's stack
  };
  std::vector<Source> sources;
  std::vector<int> program;
  int depth = 0;  // largest height of the program's stack
};

// `ranges`, each behind the range before, belong to all workers, and the program leaves the sum. Or the ranges belong
// to a few workers, such as the workers of a host, and the program leaves the partial sums that these workers pass on
// together: as many as in plan_fold() of the whole range.
FinishPlan plan_finish(SumOrder order, int64_t ests, const std::vector<EstRange>& ranges);

}  // namespace estrain::comm
