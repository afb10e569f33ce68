#include "core/job/batches/batch_change.h"

#include <algorithm>

namespace estrain::batches {

void add_change(std::vector<BatchChange>& changes, const BatchChange& change) {
  const auto at = std::ranges::lower_bound(changes, change.after, {}, &BatchChange::after);
  if (at != changes.end() && at->after == change.after) {
    *at = change;
  } else {
    changes.insert(at, change);
  }
}

}  // namespace estrain::batches
