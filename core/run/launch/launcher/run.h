#pragma once
// The whole of a run, as its launcher alone holds it: the job as decisions see it, the run's descriptors and processes,
// the shared memory, the journal and the control socket. Each part of the launcher has a view() of the run, and the
// processes or further parts for its work.

#include <memory>

#include "core/run/faults/diagnosis.h"
#include "core/run/launch/launcher/parts/run_view.h"
#include "core/run/launch/launcher/processes/handover.h"
#include "core/run/launch/preflight/launch_plan.h"
#include "core/run/launch/profiling/change_history.h"

namespace estrain::launch {

// Descriptors of a run, kept open for all its processes.
struct Descriptors {
  UniqueFd memory, doorbell, lock, spec, library, courier;

  SharedDescriptors shared() const {
    return {memory.get(), doorbell.get(), lock.get(), spec.get(), library.get(), courier.get()};
  }
};

struct Run {
  explicit Run(LaunchPlan& plan);  // moves the kept parts out of the plan
  explicit Run(Handover handover);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  spec::JobSpec spec;
  Journal journal;
  Handover state;
  decisions::RunState& job = state.job;  // only decide() changes the job
  Descriptors descriptors;
  StateOrigin origin;
  RunMemory memory;
  std::unique_ptr<ControlServer> control;  // null until the first workers have been started

  // Returns the table for the causes of losses, with the rules of the spec and of the user.
  faults::FaultTable fault_table() const {
    return faults::FaultTable::with_rules_of(state.fault_rules, spec.recovery.rules);
  }
  int64_t trained() const { return memory.trained(); }
  // Returns the changes of the launcher before this launcher.
  ChangeHistory past() const {
    return state.changes.empty() ? ChangeHistory() : ChangeHistory::from_json(state.changes);
  }
  RunView view() { return {spec, state.options, origin, state.times, job, memory, journal}; }
};

}  // namespace estrain::launch
