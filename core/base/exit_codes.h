#pragma once
// The exit codes of the program: a single table for help, the reference and the man pages.

#include <string_view>

namespace estrain {

struct ExitCode {
  int code;
  std::string_view brief;    // of a help text's last line
  std::string_view meaning;  // Markdown
};

inline constexpr ExitCode exit_codes[] = {
    {0, "done", "done"},
    {1, "failed",
     "failed: a fault that a retry cannot fix, a damaged or unreadable file, nothing for `verify` to compare"},
    {2, "bad usage or bad spec",
     "the command line or the spec is wrong or asks for the impossible; nothing was changed"},
    {3, "runs differ (verify)", "`verify`: the two differ"},
    {75, "stopped early but resumable", "stopped early, with a checkpoint to resume from"},
};

}  // namespace estrain
