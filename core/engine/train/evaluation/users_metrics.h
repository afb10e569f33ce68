#pragma once
// Metrics of the user's own: a function in the user's Python (train.metrics_file) gets all outputs of an evaluation and
// returns numbers by name (train.metrics_names).
//
// The workers write the outputs of their batches into one folder (core/state/checkpoint/models/output_parts.h). The
// last worker to be done starts the Python, which maps the files: the outputs take room on the disk, and memory only as
// far as the function reads them and memory is free. Each call has a new process, and the environment of each process
// is the same: the numbers depend neither on earlier calls nor on the device of the worker that asks.
//
// A call may take ten minutes, or as long as recovery.hang_seconds says.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/job/spec/job_spec.h"

namespace estrain::train {

// Calls the function with the outputs in `folder`. Returns its numbers in the order of train.metrics_names. Asks
// `goes_on` several times a second; once it answers false, kills the process and returns nothing. Throws Fault::spec
// with the traceback (cause user_code) if the function raises, or has not returned in time; Fault::spec if the Python
// or the function's result is unfit; as checkpoint::outputs_in().
std::optional<std::vector<double>> users_metrics(const spec::JobSpec& spec, const std::string& folder,
                                                 const std::function<bool()>& goes_on);

}  // namespace estrain::train
