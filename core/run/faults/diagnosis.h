#pragma once
// Finds the cause of a failed process, its class and the remedy: the fault table. A pure function of the evidence and
// the rules; the caller gathers the evidence and carries out the remedy.
//
// Causes are tried in this order, and the first match wins. The order follows the Philly study (section
// 4.2.1): the signature nearest to the root cause first, implicit signatures such as "traceback from crash"
// last.
//   1. named: the process's error, or a line of its log, names the cause (base/error.h). An error around the words of a
//      library counts as explicit, since those words may tell a nearer cause: there the signature has `faults`, too;
//   2. explicit: a line of the report or of the log, an out-of-memory kill, a hang;
//   3. the kind of error reported by the process;
//   4. implicit: signal, exit status, and causes marked as consequences of other causes.
// Within each group, the order of the rules decides. All of a user's own rules come before the built-in rules.
//
// Unreliable evidence is ignored:
//   - the log, if the process reported an error for the user to correct (usage, spec, infeasible, corrupt,
//     mismatch): the report is the last word. For all of these kinds but "infeasible", the kind of error decides, not
//     the text, unless a signature names the kind;
//   - lines of the dynamic linker about ignored libraries: LD_PRELOAD names an absent library;
//   - log lines about a user's error, if the process was ended from outside (SIGKILL, hung): user errors need no kill.

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
  std::optional<ChildEnd> ended;  // how the process ended; nothing after a hang or a reported error
  std::optional<Error> said;      // the error reported by the process
  bool hung = false;              // the process made no progress and was killed
  std::string hung_how;           // in words: "made no progress for 7.1 s"
  bool job_wide_oom =
      false;  // job/resources/memory_evidence.h: the out-of-memory killer struck and may have killed this process
  std::string
      oom_text;  // job/resources/memory_evidence.h: used and allowed memory, with or without an out-of-memory kill
  bool at_start = false;  // no worker of this launch has trained yet
  std::string log_tail;   // last lines of the process's log, at most 64 KB
};

struct Diagnosis {
  std::string cause;  // id: "cpu_out_of_memory"
  FaultClass fault_class = FaultClass::engine;
  std::string description;     // the cause in words: "the memory of the host ran out"
  bool retry = false;          // whether restarting the process can help
  double backoff_seconds = 0;  // before attempt k: backoff_seconds * 2^(k-1)
  bool other_device = false;   // the device itself is suspect: continue without it
  bool less_memory = false;    // retry with fewer loader threads and less prefetch
  int exit_code = 1;           // exit code of the run if this fault ends the run
  std::string evidence;        // the matching signal, log line or cgroup counter. One line, UTF-8
  std::string advice;          // next action; the reported error's own advice, if present
};

class FaultTable {
 public:
  static FaultTable built_in();
  // Returns the rules of a TOML file (FAULTS.md) followed by the built-in rules; without a path only the latter. Throws
  // Fault::spec if the file is unreadable, and with "file:line:column: key: what is wrong" for each mistake.
  static FaultTable with_rules(const std::string& user_toml_path);
  // Does the same with the text of the rule file; the text is empty without a rule file.
  static FaultTable with_rules_of(const std::string& user_toml, const std::string& user_toml_path);

  Diagnosis diagnose(const Evidence& evidence) const;
  const std::vector<FaultCause>& causes() const { return causes_; }

  // The table in FAULTS.md.
  std::string markdown() const;

 private:
  // A signature of a cause, in the order of matching.
  struct CauseSignature {
    size_t cause;
    size_t signature;
    bool users;
    int pass;
  };
  void add(const FaultCause& cause, bool users);

  std::vector<FaultCause> causes_;
  std::vector<CauseSignature> entries_;
};

// The text of a user's rules; empty without a path. Throws Fault::spec.
std::string text_of_rules(const std::string& user_toml_path);

// {"cause", "class", "description", "retry", "backoff_seconds", "other_device", "less_memory", "exit_code", "evidence",
// "advice"}
Json to_json(const Diagnosis& diagnosis);

}  // namespace estrain::faults
