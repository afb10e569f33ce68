#pragma once
// The knowledge of `estrain status` about a run: from the run's launcher if it answers, else from the run directory's
// files.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/run/launch/control/status.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::launch {

// Throws Fault::usage if `run` holds no run, Fault::peer if its launcher's answer makes no sense.
RunStatus run_status(const std::string& run);

// Returns the JSON form of `estrain status --json`.
Json status_as_json(const RunStatus& status);
RunStatus status_from_json(const Json& json);

// Returns the devices found wrong by audits, from the run's events. wrong_device() reads a single event.
std::vector<WrongDevice> find_wrong_devices(const run_directory::RunDirectory& run);
WrongDevice wrong_device(const Json& fault);

// The run directories below `folder`, by name.
std::vector<std::string> find_runs(const std::string& folder);

std::string format_status(const RunStatus& status);                   // of one run, several lines
std::string format_status_table(const std::vector<RunStatus>& runs);  // a line each

}  // namespace estrain::launch
