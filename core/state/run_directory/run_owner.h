#pragma once
// The process at work on a run directory, as named by its file `lock`: a JSON object, and nothing once a launcher has
// ended as expected. The launcher touches the file now and then, as a sign of life for other hosts with the directory:
// these hosts cannot reach the control socket, and some file systems keep a host's locks from other hosts.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/clock.h"

namespace estrain::run_directory {

constexpr Nanoseconds kBetweenTouches = 10s;
// Without a touch for this long, a launcher on another host counts as ended. Clocks of hosts may differ by seconds, and
// a host's view of another host's files may be half a minute old.
constexpr double kSilentSeconds = 90;

struct RunOwner {
  pid_t pid = 0;
  std::string host;
  std::string slurm_job;  // empty: no job

  static RunOwner this_process();
  static std::optional<RunOwner> from_text(const std::string& text);  // nothing if the text names no owner
  std::string to_text() const;

  bool is_here() const;          // on this host
  bool is_this_process() const;  // the calling process
  bool has_ended() const;        // this host has no such process
  std::string name() const;      // "process 4711", of another host "process 4711 on node17"
  std::string reach() const;     // how to ask its host: "srun --overlap --jobid=42", "ssh node17"
};

struct DistantOwner : RunOwner {
  double silent_seconds;  // since the last sign of life
};

// Returns the seconds since the file was written or touched, by the clock of this host; nothing without a file.
std::optional<double> seconds_since_touch(const std::string& path);

// Tells whether the file is touched within `patience`, independent of the clocks.
bool is_touched_within(const std::string& path, Nanoseconds patience);

}  // namespace estrain::run_directory
