#pragma once
// A whole report: one self-contained HTML file without scripts. The file forbids the browser to load or run anything
// (Content-Security-Policy).

#include <string>
#include <vector>

#include "core/inspect/report/run_records.h"

namespace estrain::report {

// `differences` compares the first run with every further run; empty for one run.
std::string page(const std::vector<RunRecords>& runs, const std::vector<RunDifference>& differences);

}  // namespace estrain::report
