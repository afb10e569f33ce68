#pragma once
// The lines of `estrain status --watch`: pure functions, for tests without a terminal.
//
// Names and messages are untrusted: only their printable ASCII is sent to the terminal; "?" stands for other
// characters.

#include <cstdint>
#include <string>
#include <vector>

#include "core/inspect/report/charts/series.h"
#include "core/inspect/report/charts/timeline.h"
#include "core/run/launch/control/status.h"

namespace estrain::watch {

struct WatchView {
  launch::RunStatus status;
  std::vector<report::Span> losses;  // of all steps, oldest first
  std::vector<report::Mark> events;  // the last events, oldest first
  std::string trouble;               // the reason why `status` is outdated; empty if current
};

// The abilities of the terminal.
struct TerminalLook {
  size_t columns = 80, rows = 24;
  bool colour = true;
  bool blocks = true;  // block elements of Unicode; otherwise only ASCII
};

// Returns at most `rows` lines of at most `columns` columns each, without line ends; with colour, escape sequences are
// between the columns. If space is short, the list of workers is cut ("and 9 more workers") and leaves up to 6 lines
// for the last events. On the smallest screens, events are dropped first, then workers.
std::vector<std::string> lines_of(const WatchView& view, const TerminalLook& look);

// Returns a chart of one line: one column per value, in eight heights from the lowest to the highest value; half height
// if all are equal. The values are finite. Uses ASCII if the terminal has no block elements.
std::string sparkline(const std::vector<double>& values, bool blocks);

// Returns a bar with `filled` of `columns` cells.
std::string bar(size_t filled, size_t columns, bool blocks);

}  // namespace estrain::watch
