#pragma once
// The cost of a change of devices on this machine, from the event log of a resized run.

#include <string>

namespace estrain::simulate {

// Returns the median, over the resizes in the file events.jsonl, of the seconds that the job paused or lost while new
// workers warmed up. Throws Fault::infeasible if the file has no resize.
double measured_charge(const std::string& events_path);

}  // namespace estrain::simulate
