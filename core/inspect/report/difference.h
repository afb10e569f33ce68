#pragma once
// The difference between two runs: the result of `estrain verify`, and the distance of their losses.

#include <string>

#include "core/inspect/report/charts/series.h"

namespace estrain::report {

struct RunDifference {
  bool compared = false;  // if false, `words` gives the reason
  bool identical = false;
  int64_t first_step = 0;  // the first step with a difference
  std::string words;       // from verify::to_text
  Series losses;           // |loss of A - loss of B| at common steps
};

// Incomparable runs are also a result: two runs without a common step, a damaged record. Throws Fault::io if the losses
// are unreadable.
RunDifference difference_of(const std::string& a, const std::string& b);

}  // namespace estrain::report
