#pragma once
// Supervises a run, ten times a second: finds workers and a scribe that hang or are stopped (sentry.h), and notices the
// allocation's end. The launcher decides about each event before the next search: decisions change what is to be found.

#include <optional>

#include "core/base/clock.h"
#include "core/run/decisions/event.h"
#include "core/run/launch/launcher/parts/run_view.h"
#include "core/run/launch/launcher/processes/sentry.h"

namespace estrain::launch {

class Supervision {
 public:
  Supervision(const RunView& run, RunProcesses& processes)
      : run_(run), processes_(processes), sentry_(nanoseconds(Seconds(run.spec.recovery.hang_seconds))) {}

  // Notes the devices of the stage in force. `anew`: a stage begins, else the stage goes on in a fresh launcher.
  void begin_stage(bool anew);

  // Begins each turn of the launcher's loop.
  void begin_round(MonotonicTime now);
  // Shows a sign of life to hosts that see only the run directory of this host, and looks after the run's lock. If
  // another launcher has the run by now, ends the scribe, which would save, and throws Fault::usage.
  void show_life(MonotonicTime now);

  // Asks to stop because Slurm ends the job at `ends`, which is read again shortly before: Slurm may have given more
  // time.
  std::optional<decisions::Event> find_allocation_end(std::optional<MonotonicTime>& ends, MonotonicTime now) const;
  std::optional<decisions::Event> find_stopped_worker(MonotonicTime now);
  // Kills a relay that was stopped by a signal: the workers on other hosts are lost with the relay, and started by
  // another one.
  void end_stopped_relay(MonotonicTime now);
  // The run must be attached to its memory.
  std::optional<decisions::Event> find_hung_worker(MonotonicTime now) const;
  bool scribe_hangs(MonotonicTime now);

 private:
  void keep_lock();
  bool allocation_ends(std::optional<MonotonicTime>& ends, MonotonicTime now) const;

  const RunView run_;
  RunProcesses& processes_;
  Sentry sentry_;
  MonotonicTime shown_life_{};  // when the run's lock was last touched
};

}  // namespace estrain::launch
