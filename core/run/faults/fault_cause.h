#pragma once
// One cause of failure as data: how to recognise the cause and what to do. A fault table (diagnosis.h) is a list of
// causes; fault_rules.h reads causes from TOML, faults.toml holds the built-in causes.

#include <regex.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace estrain::faults {

// A LinePattern is a regular expression, searched for in the lines of a log: POSIX extended (regex(7)), with GNU's \b,
// \w and \s. Case does not matter, and a match lies within one line.
//
// Not std::regex, which backtracks: a long line would overflow the stack, and a clumsy user pattern would take forever,
// in the one process that must not fail. The C library runs an automaton instead, unless the pattern has
// back-references; so patterns with back-references are refused.
class LinePattern {
 public:
  // Throws Fault::spec if `pattern` is not a regular expression, has a back-reference or matches the empty line (and so
  // every line).
  explicit LinePattern(const std::string& pattern);

  const std::string& text() const { return text_; }

  // Returns the first matching line of `lines`, without surrounding white space. `lines` must not contain a zero byte.
  std::optional<std::string> first_line_in(const std::string& lines) const;

 private:
  std::string text_;
  std::shared_ptr<const regex_t> compiled_;  // never changes, so copies share the automaton
};

// The party that has to act. The categories are from Table 7 in M. Jeon et al., "Analysis of Large-Scale Multi-Tenant
// GPU Clusters for DNN Training Workloads" (USENIX ATC 2019), the Philly study.
enum class FaultClass {
  user,            // the job, its data or its surroundings, as set up by the user; never retried
  infrastructure,  // machine, devices, storage, network, scheduler
  engine,          // estrain and its libraries for training
};
std::string_view class_name(FaultClass fault_class);  // "user", "infrastructure", "engine"

// One way to recognise a cause: every given condition must hold; for a list, one member must match.
struct Signature {
  std::vector<LinePattern> text;   // found in the process's report or log; with `faults`: in the report
  std::vector<Fault> faults;       // the kind of error reported by the process
  std::vector<int> signals;        // the signal that ended the process
  std::vector<int> exit_statuses;  // the process's exit status
  bool hung = false;               // the process was killed for making no progress
  bool oom = false;                // the out-of-memory killer struck
  bool named = false;              // the process's error, or a line of its log, names the cause (Error::caused_by)

  // "SIGSEGV", "an OOM kill and SIGKILL", "a reported `io` error with `checkpoint`"; text patterns in back-quotes.
  std::string words() const;
};

struct FaultCause {
  std::string id;     // "cpu_out_of_memory"
  std::string study;  // the corresponding failure reason in the Philly study's Table 7; empty: none
  FaultClass fault_class = FaultClass::engine;
  std::string description;
  // Other causes leave this cause's signatures, too (the study: "traceback from crash is a consequence"), so
  // consequences are tried last.
  bool consequence = false;
  bool retry = false;          // whether restarting the process can help
  double backoff_seconds = 0;  // before attempt k: backoff_seconds * 2^(k-1)
  bool other_device = false;   // retry without the failed device
  bool less_memory = false;    // retry with fewer loader threads and less prefetch
  bool retry_at_start = true;  // whether to retry before the first step, too
  int exit_code = 1;           // exit code of the run if this fault ends the run
  std::string advice;
  std::vector<Signature> signatures;
};

}  // namespace estrain::faults
