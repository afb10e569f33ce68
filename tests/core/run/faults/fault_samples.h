#pragma once
// Real examples of each cause of the built-in fault table: a complete case each, and a log line for each wording.

#include <string>
#include <vector>

#include "core/run/faults/diagnosis.h"

namespace estrain::faults {

struct FaultSample {
  std::string cause;
  Evidence evidence;
  // the expected diagnosis
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
// Lines from the logs of processes that ended with exit status 1.
std::vector<SampleLine> sample_log_lines();

Evidence ended_by(int signal, std::string log = "");
Evidence ended_with(int exit_status, std::string log = "");
Evidence naming(std::string cause, Evidence evidence);                      // the reported error names this cause
Evidence reported(Fault fault, std::string message, std::string log = "");  // with the exit status of that error

}  // namespace estrain::faults
