#include "core/plan/assignment.h"

#include "core/base/error.h"

namespace estrain::plan {

std::vector<EstRange> even_assignment(int64_t ests, int64_t workers) {
  if (workers < 1 || workers > ests) {
    throw Error::make(Fault::infeasible, "{} workers for {} ESTs: every worker must host at least one", workers, ests)
        .advise(fmt::format("give between 1 and {} devices", ests));
  }
  std::vector<EstRange> ranges;
  int64_t next = 0;
  for (int64_t worker = 0; worker < workers; ++worker) {
    const int64_t size = ests / workers + (worker < ests % workers ? 1 : 0);
    ranges.push_back({VirtualRank(next), VirtualRank(next + size)});
    next += size;
  }
  return ranges;
}

}  // namespace estrain::plan
