#pragma once
// The process that is at work on a run directory, as its file `lock` says: a JSON object, and nothing once a launcher
// has ended as it should. The launcher touches the file now and then. So other hosts that share the directory see that
// it lives: they cannot reach its control socket, and some file systems keep a host's locks from the others.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace estrain::run_directory {

constexpr int64_t kBetweenTouchesNs = 10'000'000'000;
// Without a touch for so long, a launcher on another host is taken to be gone. Clocks of hosts may differ by seconds,
// and what one host sees of another's files may be half a minute old.
constexpr double kSilentSeconds = 90;

struct RunOwner {
  pid_t pid = 0;
  std::string host;
  std::string slurm_job;  // empty: none

  static RunOwner this_process();
  static std::optional<RunOwner> from_text(const std::string& text);  // nothing where it is no owner's
  std::string to_text() const;

  bool is_here() const;       // on this host
  bool has_ended() const;     // here there is no such process
  std::string name() const;   // "process 4711", of another host "process 4711 on node17"
  std::string reach() const;  // how its host is asked: "srun --overlap --jobid=42", "ssh node17"
};

struct DistantOwner : RunOwner {
  double silent_seconds;  // since it last showed life
};

// Seconds since the file was written or touched, by the clock of this host; nothing where there is none.
std::optional<double> seconds_since_touch(const std::string& path);

// Whether it is touched within `milliseconds`, whatever the clocks say.
bool is_touched_within(const std::string& path, int milliseconds);

}  // namespace estrain::run_directory
