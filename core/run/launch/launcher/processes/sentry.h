#pragma once
// Finds processes of a run that hang, are stopped, or wait for ever. The sentry reads a few words in shared memory,
// written by workers during their work, and /proc for silent workers (hang.h, work_sign.h). The finding is an event;
// core/run/decisions decides about the event.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/run/decisions/event.h"
#include "core/run/decisions/state/state.h"
#include "core/run/launch/launcher/processes/hang.h"
#include "core/run/launch/launcher/processes/processes.h"
#include "core/state/comm/job_memory.h"

namespace estrain::launch {

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
