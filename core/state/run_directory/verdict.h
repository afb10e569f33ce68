#pragma once
// Tells how the last launch of a run ended: verdict.json in the run directory, for scripts of sites whose batch systems
// rewrite exit codes. The file is absent while a launch is at work, and after a kill of all processes together.
//
//   {"exit_code": 75, "outcome": "stopped", "cause": "SIGTERM", "advice": "go on with …", "step": 120,
//    "saved_step": 120, "host": "nodeA", "pid": 4711, "time": "2031-05-04T12:30:01.123Z"}
//
// The holder of the run directory's lock writes and removes the file.

#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace estrain::run_directory {

struct RunVerdict {
  int exit_code = 0;
  // "finished", "stopped", "failed"; "killed": the launcher was, and the scribe has saved the state since.
  std::string_view outcome;
  std::string cause = {}, advice = {};
  std::optional<int64_t> step = {};        // the last trained step
  std::optional<int64_t> saved_step = {};  // of the newest checkpoint of this launch

  static RunVerdict failed(const Error& error);
};

// Prints a warning if the verdict cannot be written: the end of the run stays the same.
void write_verdict(const std::string& run, const RunVerdict& verdict);
void remove_verdict(const std::string& run);

}  // namespace estrain::run_directory
