#pragma once
// A whole report: one self-contained HTML file without scripts. The file forbids the browser to load or run anything
// (Content-Security-Policy).

#include <string>
#include <string_view>
#include <vector>

#include "core/inspect/report/run_records.h"

namespace estrain::report {

// Ends the title of every report.
inline constexpr std::string_view kTitleEnd = " - estrain report</title>";

// `differences` compares the first run with every further run; empty for one run.
std::string page(const std::vector<RunRecords>& runs, const std::vector<RunDifference>& differences);

}  // namespace estrain::report
