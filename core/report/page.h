#pragma once
// A whole report: one HTML file that needs nothing beside it, has no script, and forbids the browser to load or run
// anything (Content-Security-Policy).

#include <string>
#include <vector>

#include "core/report/difference.h"
#include "core/report/run_records.h"

namespace estrain::report {

// `differences` are those of every run but the first from the first one; empty for one run.
std::string page(const std::vector<RunRecords>& runs, const std::vector<RunDifference>& differences);

}  // namespace estrain::report
