#pragma once
// One cause of failure as data: how to recognise it and what to do. A fault table (diagnosis.h) is a list of these;
// fault_rules.h reads them from TOML, faults.toml holds the built-in ones.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/run/faults/line_pattern.h"

namespace estrain::faults {

// The party that has to act. The categories are those of Table 7 in M. Jeon et al., "Analysis of Large-Scale
// Multi-Tenant GPU Clusters for DNN Training Workloads" (USENIX ATC 2019), the Philly study.
enum class FaultClass {
  user,            // the job, its data or its surroundings, as the user set them up; never retried
  infrastructure,  // machine, devices, storage, network, scheduler
  engine,          // estrain and the libraries it trains with
};
std::string_view class_name(FaultClass fault_class);  // "user", "infrastructure", "engine"

// One way to recognise a cause: every given condition must hold; for a list, one member must match.
struct Signature {
  std::vector<LinePattern> text;   // found in the process's report or log; with `faults`: in the report
  std::vector<Fault> faults;       // the kind of error that it reported
  std::vector<int> signals;        // the signal that ended it
  std::vector<int> exit_statuses;  // its exit status
  bool hung = false;               // it was killed because it made no progress
  bool oom = false;                // the out-of-memory killer struck

  // "SIGSEGV", "an OOM kill and SIGKILL", "a reported `io` error with `checkpoint`"; text patterns in back-quotes.
  std::string words() const;
};

struct FaultCause {
  std::string id;     // "cpu_out_of_memory"
  std::string study;  // the corresponding failure reason in the Philly study's Table 7; empty: none
  FaultClass fault_class = FaultClass::engine;
  std::string description;
  // Other causes leave its signatures, too (the study: "traceback from crash is a consequence"), so they are tried
  // last.
  bool consequence = false;
  bool retry = false;          // whether restarting the process can help
  double backoff_seconds = 0;  // before attempt k: backoff_seconds * 2^(k-1)
  bool other_device = false;   // retry without the failed device
  bool less_memory = false;    // retry with fewer loader threads and less prefetch
  bool retry_at_start = true;  // whether to retry before the first step, too
  int exit_code = 1;           // of the run if this ends it
  std::string advice;
  std::vector<Signature> signatures;
};

}  // namespace estrain::faults
