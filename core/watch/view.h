#pragma once
// The lines that `estrain status --watch` shows: pure, so that they can be tested without a terminal.
//
// Names and messages are somebody else's text: control characters in it are not sent to the terminal.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/report/series.h"
#include "core/report/timeline.h"

namespace estrain::watch {

struct View {
  Json status;                       // as launch::run_status gives it
  std::vector<report::Span> losses;  // of all steps, oldest first
  std::vector<report::Mark> events;  // the last ones, oldest first
  std::string trouble;               // why `status` is not of now; empty if it is
};

// What the terminal can show.
struct Look {
  size_t columns = 80, rows = 24;
  bool colour = true;
  bool blocks = true;  // block elements of Unicode; else ASCII alone
};

// At most `rows` lines of at most `columns` columns each, without line ends. Where there is less room than it needs,
// events go first, then workers.
std::vector<std::string> lines_of(const View& view, const Look& look);

}  // namespace estrain::watch
