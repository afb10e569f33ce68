#pragma once
// From what is known of a process that failed to the cause, its class and what to do: the fault table. A pure function
// of the evidence and the rules; whoever asks gathers the one and carries out the other.
//
// The order in which causes are asked, first fit wins. It is the Philly study's (section 4.2.1): the signature nearest
// to the root cause first, implicit ones such as "traceback from crash" only where there is no other.
//   1. explicit: a line of the report or of the log, an out-of-memory kill, a hang;
//   2. the kind of the error that the process reported;
//   3. implicit: signal, exit status, and causes that are marked as consequences of others.
// Within each, the order of the rules. A user's own rules are all asked before the built-in ones.
//
// What is not believed:
//   - the log, where the process reported what the user has to correct (usage, spec, infeasible, corrupt, mismatch):
//     that report is the last word. Of one that is not "infeasible" the kind decides, not its words, unless a signature
//     names that kind;
//   - lines of the log that speak of a user's error, where the process was ended from outside (SIGKILL, hung): such an
//     error ends a process by itself.

#include <optional>
#include <string>
#include <vector>

#include "core/base/child_process.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/faults/fault_cause.h"

namespace estrain::faults {

// What is known of a process that failed.
struct Evidence {
  std::optional<ChildEnd> ended;  // how it ended, if it did by itself
  std::optional<Error> said;      // the error that it reported before
  bool hung = false;              // it made no progress and was killed for that
  std::string hung_how;           // in words: "made no progress for 7.1 s"
  bool job_wide_oom = false;      // memory_evidence.h: the out-of-memory killer struck, and this death may be its work
  std::string oom_text;           // memory_evidence.h: what was used and allowed, whether or not it struck
  bool at_start = false;          // no worker of this launch has trained yet: what fails now has never worked
  std::string log_tail;           // last lines of its log; what is more than 64 KB is left out
};

struct Diagnosis {
  std::string cause;  // id: "cpu_out_of_memory"
  FaultClass fault_class = FaultClass::engine;
  std::string description;     // the cause in words: "the memory of the host ran out"
  bool retry = false;          // whether starting the process anew can help
  double backoff_seconds = 0;  // before attempt k: backoff_seconds * 2^(k-1)
  bool other_device = false;   // the device itself is suspect: go on without it
  bool less_memory = false;    // retry with fewer loader threads and less prefetch
  int exit_code = 1;           // of the run if it ends by this
  std::string evidence;        // what it was recognised by: the signal, the line, the cgroup's words. One line, UTF-8
  std::string advice;          // next action; that of the reported error where it has one
};

class FaultTable {
 public:
  static FaultTable built_in();
  // The built-in rules, and before them those of a TOML file (FAULTS.md); an empty path: the built-in ones. Throws
  // Fault::spec where the file cannot be read, and "file:line:column: key: what is wrong" for each mistake in it.
  static FaultTable with_rules(const std::string& user_toml_path);
  // The same for what was read of that file before; empty without one.
  static FaultTable with_rules_of(const std::string& user_toml, const std::string& user_toml_path);

  Diagnosis diagnose(const Evidence& evidence) const;
  const std::vector<FaultCause>& causes() const { return causes_; }

  // The table of FAULTS.md.
  std::string markdown() const;

 private:
  // A place to look, in the order of asking.
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
