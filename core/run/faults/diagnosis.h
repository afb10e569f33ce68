#pragma once
// Finds the cause of a failed process, its class and what to do: the fault table. A pure function of the evidence and
// the rules; the caller gathers the evidence and carries out the remedy.
//
// Causes are tried in this order, and the first match wins. It is the Philly study's order (section 4.2.1): the
// signature nearest to the root cause first, implicit ones such as "traceback from crash" only if there is no other.
//   1. explicit: a line of the report or of the log, an out-of-memory kill, a hang;
//   2. the kind of error that the process reported;
//   3. implicit: signal, exit status, and causes marked as consequences of others.
// Within each, the order of the rules. All of a user's own rules come before the built-in ones.
//
// Unreliable evidence is ignored:
//   - the log, if the process reported an error that the user has to correct (usage, spec, infeasible, corrupt,
//     mismatch): that report is the last word. For all of these but "infeasible", the kind of error decides, not its
//     text, unless a signature names that kind;
//   - what the dynamic linker says that it ignores: a library in LD_PRELOAD that is not there;
//   - log lines about a user's error, if the process was ended from outside (SIGKILL, hung): a user's error ends a
//     process by itself.

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json/json.h"
#include "core/base/process/child_process.h"
#include "core/run/faults/fault_cause.h"

namespace estrain::faults {

// The evidence about a failed process.
struct Evidence {
  std::optional<ChildEnd> ended;  // how it ended, if by itself
  std::optional<Error> said;      // the error that it reported
  bool hung = false;              // it made no progress and was killed
  std::string hung_how;           // in words: "made no progress for 7.1 s"
  bool job_wide_oom = false;      // memory_evidence.h: the out-of-memory killer struck and may have killed this process
  std::string oom_text;           // memory_evidence.h: used and allowed memory, whether or not it struck
  bool at_start = false;          // no worker of this launch has trained yet
  std::string log_tail;           // last lines of its log, at most 64 KB
};

struct Diagnosis {
  std::string cause;  // id: "cpu_out_of_memory"
  FaultClass fault_class = FaultClass::engine;
  std::string description;     // the cause in words: "the memory of the host ran out"
  bool retry = false;          // whether restarting the process can help
  double backoff_seconds = 0;  // before attempt k: backoff_seconds * 2^(k-1)
  bool other_device = false;   // the device itself is suspect: continue without it
  bool less_memory = false;    // retry with fewer loader threads and less prefetch
  int exit_code = 1;           // of the run if this ends it
  std::string evidence;        // the matching signal, log line or cgroup counter. One line, UTF-8
  std::string advice;          // next action; the reported error's own advice if it has one
};

class FaultTable {
 public:
  static FaultTable built_in();
  // The rules of a TOML file (FAULTS.md) followed by the built-in ones; an empty path: only the built-in ones. Throws
  // Fault::spec if the file is unreadable, and with "file:line:column: key: what is wrong" for each mistake in it.
  static FaultTable with_rules(const std::string& user_toml_path);
  // The same for the text of that file; empty if there is none.
  static FaultTable with_rules_of(const std::string& user_toml, const std::string& user_toml_path);

  Diagnosis diagnose(const Evidence& evidence) const;
  const std::vector<FaultCause>& causes() const { return causes_; }

  // The table in FAULTS.md.
  std::string markdown() const;

 private:
  // A signature of a cause, in the order of matching.
  struct Entry {
    size_t cause;
    size_t signature;
    bool users;
    int pass;
  };
  void add(const FaultCause& cause, bool users);

  std::vector<FaultCause> causes_;
  std::vector<Entry> entries_;
};

// The text of a user's rules; empty without a path. Throws Fault::spec.
std::string text_of_rules(const std::string& user_toml_path);

// {"cause", "class", "description", "retry", "backoff_seconds", "other_device", "less_memory", "exit_code", "evidence",
// "advice"}
Json to_json(const Diagnosis& diagnosis);

}  // namespace estrain::faults
