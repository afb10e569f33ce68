#pragma once
// What `estrain status` knows of a run: from its launcher while one answers, else from the run directory's files.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/launch/directory/run_directory.h"

namespace estrain::launch {

// Keys as the launcher's answer (control_socket.h): name, state, step, total_steps, loss, devices, workers, … A run
// without a launcher has the state "finished", "stopped", "failed" or "not running"; one whose launcher is at work on
// another host, which shares the directory, has "elsewhere", with host, pid, slurm_job and seconds_since_sign_of_life.
// Throws Fault::usage if `run` holds no run.
Json run_status(const std::string& run);

// The devices that audits of a run found wrong, by its events: [{"device", "worker", "step", "vouched_step"}, …]. And
// the entry for one such event.
Json find_wrong_devices(const RunDirectory& run);
Json wrong_device(const Json& fault);

// The run directories below `folder`, by name.
std::vector<std::string> find_runs(const std::string& folder);

std::string format_status(const Json& status);                   // of one run, several lines
std::string format_status_table(const std::vector<Json>& runs);  // a line each

}  // namespace estrain::launch
