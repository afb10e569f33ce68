#pragma once
// What each cause of the built-in fault table looks like in life: one whole case for each, and a line of a log for each
// way of putting it.

#include <string>
#include <vector>

#include "core/faults/diagnosis.h"

namespace estrain::faults {

struct FaultSample {
  std::string cause;
  Evidence evidence;
  // what the table is to make of it
  FaultClass fault_class;
  bool retry;
  int exit_code;
  std::string words;  // the diagnosis' evidence
};
std::vector<FaultSample> fault_samples();

struct SampleLine {
  std::string cause;
  std::string line;
};
// Of the log of a process that ended with exit status 1.
std::vector<SampleLine> sample_log_lines();

Evidence ended_by(int signal, std::string log = "");
Evidence ended_with(int exit_status, std::string log = "");
Evidence reported(Fault fault, std::string message, std::string log = "");  // and ended as such an error ends it

}  // namespace estrain::faults
