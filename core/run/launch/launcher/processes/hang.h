#pragma once
// Decides whether a worker hangs, by what it was last seen doing, how long it has been silent since, and how long such
// work took before: pure functions. The verdict comes with its reason.
//
// Silence alone is no hang: a batch of a new shape takes longer than those before it, and a neighbour may hold the
// processor. A worker that takes processor time is at work, up to a much longer limit, as it may loop for ever. One
// that takes none (a lock that is never released, storage that is gone) hangs once it has been silent for
//   three times the longest of its work and 2 s, where such work has been measured on the devices in use;
//   two minutes, where it has not: the first step, the first batch of an evaluation, the setting up of a stage.
// A worker on a GPU sleeps while the GPU computes, so processor time alone decides nothing.
// A limit that the user gave (recovery.hang_seconds) replaces all of these.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/state/comm/job_memory.h"

namespace estrain::launch {

// How long work took at most, on the devices in use. 0: not measured yet.
struct Pace {
  int64_t step_ns = 0;
  int64_t evaluation_ns = 0;  // one batch of an evaluation
  int64_t limit_ns = 0;       // recovery.hang_seconds; 0: none
};

struct Silence {
  comm::Activity activity = comm::Activity::idle;  // at its last beat
  int64_t since_beat_ns = 0;
  int64_t since_work_ns = 0;  // since its last beat or processor time
  bool left = false;          // it has left the stage
};

// How long a worker may be silent.
struct Patience {
  int64_t still_ns = 0;  // without processor time
  int64_t busy_ns = 0;   // at all
};

inline constexpr int64_t kUnmeasuredNs = INT64_C(120'000'000'000);
inline constexpr int64_t kReadingNs = INT64_C(600'000'000'000);          // storage may be away for a while
inline constexpr int64_t kBusyNs = INT64_C(600'000'000'000);             // and ten times the patience without it
inline constexpr int64_t kBusyUnmeasuredNs = INT64_C(3600'000'000'000);  // nobody knows how long that takes
inline constexpr int64_t kLeavingNs = INT64_C(2'000'000'000);            // beyond its patience, to leave a stage

Patience patience_with(comm::Activity activity, const Pace& pace);

// Why the worker of a stage hangs, for "it …"; nothing: it does not. A worker that waits for others or for the scribe
// never does.
std::optional<std::string> why_hung(const Silence& silence, const Pace& pace);

// The same for a worker that is to leave a stage which was given up `since_abort_ns` ago.
std::optional<std::string> why_lingering(const Silence& silence, int64_t since_abort_ns, const Pace& pace);

// Whether all workers of a stage wait for each other: somebody was stopped while it waited. Processor time is no sign
// of life there: threads in the background look around (NCCL's).
bool all_wait(std::span<const Silence> workers, const Pace& pace);

}  // namespace estrain::launch
