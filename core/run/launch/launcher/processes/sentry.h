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
// A worker that reads data may be silent for at least ten minutes: storage may be away for a while. A worker on a GPU
// sleeps while the GPU computes, so processor time alone decides nothing. A limit given by the user
// (recovery.hang_seconds) replaces all of these limits but the ten minutes for reading.

// The longest time of work, on the devices in use. 0: not measured yet.
struct LongestWork {
  Nanoseconds step{};
  Nanoseconds evaluation{};  // for a batch of an evaluation
  Nanoseconds limit{};       // recovery.hang_seconds; 0: no limit
};

struct Silence {
  comm::Activity activity = comm::Activity::idle;  // at the worker's last beat
  Nanoseconds since_beat{};
  Nanoseconds since_work{};  // since the last beat or processor time
  bool left = false;         // the worker has left the stage
};

// The longest silence allowed to a worker.
struct Patience {
  Nanoseconds still{};  // without processor time
  Nanoseconds busy{};   // at all
};

inline constexpr Nanoseconds kUnmeasured = 120s;
inline constexpr Nanoseconds kReading = 600s;          // at least
inline constexpr Nanoseconds kBusy = 600s;             // at least; else ten times Patience::still
inline constexpr Nanoseconds kBusyUnmeasured = 3600s;  // for work of unknown length
inline constexpr Nanoseconds kLeaving = 2s;            // added to the patience, to leave a stage

Patience patience_with(comm::Activity activity, const LongestWork& pace);

// Returns why the worker of a stage hangs, for "it …"; nothing if the worker does not hang. A worker that waits for
// other workers or for the scribe never hangs.
std::optional<std::string> why_hung(const Silence& silence, const LongestWork& pace);

// Does the same for a worker which must leave a stage aborted `since_abort` ago.
std::optional<std::string> why_lingering(const Silence& silence, Nanoseconds since_abort, const LongestWork& pace);

// Tells whether all workers of a stage wait for each other: a worker was stopped while waiting. Processor time is no
// sign of life during a wait: background threads look around (NCCL's).
bool all_wait(std::span<const Silence> workers, const LongestWork& pace);

// Returns the signs of life of a member of the stage; null outside of a stage. `memory`: null before the memory stands.
const comm::WorkerPulse* pulse_of(const decisions::RunState& job, const decisions::Member& member,
                                  comm::JobMemory* memory);

class Sentry {
 public:
  // `limit`: recovery.hang_seconds; 0: no limit.
  explicit Sentry(Nanoseconds limit) : limit_(limit) {}

  // Call first in each turn of the launcher's loop. After a second or more since the last turn the launcher, or the
  // whole machine, stood still: no silence before `now` counts. `memory`, here and below: null before the memory
  // stands.
  void begin_round(comm::JobMemory* memory, MonotonicTime now);
  // Notes the kinds of devices of the stage: times of one kind tell nothing about another kind. `anew`: forgets the
  // measurements if the kinds have changed.
  void measure_on(Devices devices, comm::JobMemory& memory, bool anew);

  // Each finds one worker at a time: decisions change the lists of workers.
  // Finds a worker, in a stage or starting, that was stopped by a signal; or a starting worker without processor time
  // for ten minutes. Notes the processor time of silent workers, for find_hung().
  std::optional<decisions::Event> find_stopped(const decisions::RunState& job, Workers& workers,
                                               comm::JobMemory* memory, MonotonicTime now) const;
  // Finds a worker of the stage that hangs or lingers, or that all wait for each other.
  std::optional<decisions::Event> find_hung(const decisions::RunState& job, const Workers& workers,
                                            comm::JobMemory& memory, MonotonicTime now) const;
  // Whether the scribe was stopped by a signal, or gave no sign of life for a minute.
  // Tells whether the relay was stopped by a signal for a second.
  bool is_stopped(RelayProcess& relay, MonotonicTime now) const;
  bool has_hung(ScribeProcess& scribe, const comm::JobMemory* memory, MonotonicTime now) const;

 private:
  LongestWork pace_of(const comm::JobMemory& memory) const;
  Nanoseconds age(MonotonicTime beat, MonotonicTime now) const { return now - std::max(beat, from_); }
  void note_own_pause(comm::JobMemory* memory, MonotonicTime now);

  Nanoseconds limit_;
  MonotonicTime last_round_{};
  MonotonicTime from_{};  // silence before this does not count
  LongestWork pace_;      // as of the last round
  Devices measured_on_;   // the devices of the pace
};

}  // namespace estrain::launch
