#pragma once
// The cost of a change of devices on this machine, from the event log of a run that was resized.

#include <string>

namespace estrain::simulate {

// Median over the resizes in the file events.jsonl of the seconds that the job stood still or lost while new workers
// warmed. Throws Fault::infeasible where there is no resize in it.
double measured_charge(const std::string& events_path);

}  // namespace estrain::simulate
