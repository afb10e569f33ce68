#pragma once
// How a run differs from another one: what `estrain verify` finds of the two, and how far apart their losses are.

#include <string>

#include "core/report/series.h"

namespace estrain::report {

struct RunDifference {
  bool compared = false;  // else `words` say why not
  bool identical = false;
  int64_t first_step = 0;  // that differs
  std::string words;       // of verify::to_text
  Series losses;           // |loss of A - loss of B| at the steps that both recorded
};

// What cannot be compared is an answer, too: two runs without a common step, a damaged record. Throws Fault::io where
// the losses cannot be read.
RunDifference difference_of(const std::string& a, const std::string& b);

}  // namespace estrain::report
