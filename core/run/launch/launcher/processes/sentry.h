#pragma once
// Finds processes of a run that hang, are stopped, or wait for ever. It reads a few words in shared memory that workers
// write as they go on, and /proc for those that have been silent (hang.h, work_sign.h). The finding is an event;
// core/run/decisions decides what follows from it.

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

// The signs of life of a member of the stage; null where it is in none. `memory`: null before it stands.
const comm::WorkerPulse* pulse_of(const decisions::State& job, const decisions::Member& member,
                                  comm::JobMemory* memory);

class Sentry {
 public:
  // `limit_ns`: recovery.hang_seconds; 0: none.
  explicit Sentry(int64_t limit_ns) : limit_ns_(limit_ns) {}

  // Each turn of the launcher's loop begins with it. `memory` is null before it stands, here and below; times are
  // monotonic.
  void begin_round(comm::JobMemory* memory, int64_t now);
  // The stage runs on these kinds of devices: times on some kinds tell nothing about others. `anew`: measurements are
  // forgotten if the kinds are not those of before.
  void measure_on(Devices devices, comm::JobMemory& memory, bool anew);

  // One at a time: decisions change the lists of workers.
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
  Devices measured_on_;  // the devices of that pace
};

}  // namespace estrain::launch
