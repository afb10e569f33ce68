#pragma once
// One cause of failure as data: how it is recognised and what is to be done about it. A fault table (diagnosis.h) is a
// list of these; fault_rules.h reads them from TOML, faults.toml holds the built-in ones.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/faults/line_pattern.h"

namespace estrain::faults {

// Who has to act. The categories of Table 7 in M. Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for
// DNN Training Workloads" (USENIX ATC 2019), the Philly study.
enum class FaultClass {
  user,            // the job, its data or its surroundings, as the user set them up; never retried
  infrastructure,  // machine, devices, storage, network, scheduler
  engine,          // estrain and the libraries it trains with
};
std::string_view class_name(FaultClass fault_class);  // "user", "infrastructure", "engine"

// One way to recognise a cause: each condition that is given must hold, and of a list's members one.
struct Signature {
  std::vector<LinePattern> text;   // found in what the process reported or in its log; with `faults`: in the report
  std::vector<Fault> faults;       // the kind of the error that it reported
  std::vector<int> signals;        // what it ended by
  std::vector<int> exit_statuses;  // what it ended with
  bool hung = false;               // it was killed for making no progress
  bool oom = false;                // the out-of-memory killer struck

  // "SIGSEGV", "an OOM kill and SIGKILL", "a reported `io` error with `checkpoint`"; text patterns in back-quotes.
  std::string words() const;
};

struct FaultCause {
  std::string id;     // "cpu_out_of_memory"
  std::string study;  // the failure reason of the Philly study's Table 7 that it stands for; empty: none
  FaultClass fault_class = FaultClass::engine;
  std::string description;
  // Its signatures are what other causes leave behind too (the study: "traceback from crash is a consequence"), so they
  // are asked last.
  bool consequence = false;
  bool retry = false;          // whether starting the process anew can help
  double backoff_seconds = 0;  // before attempt k: backoff_seconds * 2^(k-1)
  bool other_device = false;   // retry without the device that it happened on
  bool less_memory = false;    // retry with fewer loader threads and less prefetch
  bool retry_at_start = true;  // whether that holds before the first step, too: nothing has worked there yet
  int exit_code = 1;           // of the run, if it ends by this
  std::string advice;
  std::vector<Signature> signatures;
};

}  // namespace estrain::faults
