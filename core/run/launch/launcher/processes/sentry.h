#pragma once
// Finds processes of a run that hang, are stopped, or wait for ever. The sentry reads a few words in shared memory,
// written by workers during their work, and /proc for silent workers. The finding is an event; core/run/decisions
// decides about the event.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/run/decisions/event.h"
#include "core/run/decisions/state/state.h"
#include "core/run/launch/launcher/processes/processes.h"
#include "core/state/comm/job_memory.h"

namespace estrain::launch {

// Whether a worker hangs is decided by its last activity, the length of its silence, and the time of such work before:
// by pure functions. The verdict comes with its reason.
//
// Silence alone is no hang: a batch of a new shape takes longer than the batches before, and a neighbour may hold the
// processor. A worker which takes processor time is at work, up to a much longer limit, as the worker may loop for
// ever. A worker without processor time (a lock is never released, storage is gone) hangs after a silence of
//   three times the longest of its work and 2 s, where such work has been measured on the devices in use;
//   two minutes, without a measurement: the first step, the first batch of an evaluation, the setting up of a stage.
// A worker on a GPU sleeps while the GPU computes, so processor time alone decides nothing. A limit given by the user
// (recovery.hang_seconds) replaces all of these limits.

// The longest time of work, on the devices in use. 0: not measured yet.
struct Pace {
  int64_t step_ns = 0;
  int64_t evaluation_ns = 0;  // for a batch of an evaluation
  int64_t limit_ns = 0;       // recovery.hang_seconds; 0: no limit
};

struct Silence {
  comm::Activity activity = comm::Activity::idle;  // at the worker's last beat
  int64_t since_beat_ns = 0;
  int64_t since_work_ns = 0;  // since the last beat or processor time
  bool left = false;          // the worker has left the stage
};

// The longest silence allowed to a worker.
struct Patience {
  int64_t still_ns = 0;  // without processor time
  int64_t busy_ns = 0;   // at all
};

inline constexpr int64_t kUnmeasuredNs = INT64_C(120'000'000'000);
inline constexpr int64_t kReadingNs = INT64_C(600'000'000'000);          // storage may be away for a while
inline constexpr int64_t kBusyNs = INT64_C(600'000'000'000);             // at least; else ten times still_ns
inline constexpr int64_t kBusyUnmeasuredNs = INT64_C(3600'000'000'000);  // for work of unknown length
inline constexpr int64_t kLeavingNs = INT64_C(2'000'000'000);            // added to the patience, to leave a stage

Patience patience_with(comm::Activity activity, const Pace& pace);

// Returns why the worker of a stage hangs, for "it …"; nothing if the worker does not hang. A worker that waits for
// other workers or for the scribe never hangs.
std::optional<std::string> why_hung(const Silence& silence, const Pace& pace);

// Does the same for a worker which must leave a stage aborted `since_abort_ns` ago.
std::optional<std::string> why_lingering(const Silence& silence, int64_t since_abort_ns, const Pace& pace);

// Tells whether all workers of a stage wait for each other: a worker was stopped while waiting. Processor time is no
// sign of life during a wait: background threads look around (NCCL's).
bool all_wait(std::span<const Silence> workers, const Pace& pace);

// Returns the signs of life of a member of the stage; null outside of a stage. `memory`: null before the memory stands.
const comm::WorkerPulse* pulse_of(const decisions::State& job, const decisions::Member& member,
                                  comm::JobMemory* memory);

class Sentry {
 public:
  // `limit_ns`: recovery.hang_seconds; 0: no limit.
  explicit Sentry(int64_t limit_ns) : limit_ns_(limit_ns) {}

  // Begins each turn of the launcher's loop. `memory` is null before the memory stands, here and below; times are
  // monotonic.
  void begin_round(comm::JobMemory* memory, int64_t now);
  // Notes the kinds of devices of the stage: times of one kind tell nothing about another kind. `anew`: forgets the
  // measurements if the kinds have changed.
  void measure_on(Devices devices, comm::JobMemory& memory, bool anew);

  // Finds one worker at a time: decisions change the lists of workers.
  std::optional<decisions::Event> find_stopped(const decisions::State& job, Workers& workers, comm::JobMemory* memory,
                                               int64_t now) const;
  std::optional<decisions::Event> find_hung(const decisions::State& job, const Workers& workers,
                                            comm::JobMemory& memory, int64_t now) const;
  bool has_hung(ScribeProcess& scribe, const comm::JobMemory* memory, int64_t now) const;

 private:
  Pace pace_of(const comm::JobMemory& memory) const;
  int64_t age_ns(int64_t beat_ns, int64_t now) const { return now - std::max(beat_ns, from_ns_); }
  void note_own_pause(comm::JobMemory* memory, int64_t now);

  int64_t limit_ns_;
  int64_t last_round_ns_ = 0;
  int64_t from_ns_ = 0;  // silence before this does not count
  Pace pace_;            // as of the last round
  Devices measured_on_;  // the devices of the pace
};

}  // namespace estrain::launch
