#pragma once
// The launcher of a job: starts workers and the scribe, watches them, answers the control socket, and ends the run. The
// launcher neither links LibTorch nor touches the state in shared memory (core/state/comm/job_memory.h).
//
// core/run/decisions decides: the launcher turns the observations of its parts (parts/run_view.h) into events, hands
// the events to decide(), and has the parts carry the actions out (carry_out.cpp).

#include <poll.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/base/clock.h"
#include "core/run/decisions/decide.h"
#include "core/run/faults/diagnosis.h"
#include "core/run/launch/launcher/ending.h"
#include "core/run/launch/launcher/parts/audits.h"
#include "core/run/launch/launcher/parts/crew.h"
#include "core/run/launch/launcher/parts/hosts.h"
#include "core/run/launch/launcher/parts/run_view.h"
#include "core/run/launch/launcher/parts/scribe_desk.h"
#include "core/run/launch/launcher/parts/speeds.h"
#include "core/run/launch/launcher/parts/stages.h"
#include "core/run/launch/launcher/parts/supervision.h"
#include "core/run/launch/launcher/processes/handover.h"
#include "core/run/launch/launcher/processes/worker_events.h"
#include "core/run/launch/launcher/requests.h"
#include "core/run/launch/launcher/status_report.h"
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

// The whole of a run, as its launcher alone holds it: the job as decisions see it, the run's descriptors and processes,
// the shared memory, the journal and the control socket. Each part of the launcher has a view() of the run, and the
// processes or further parts for its work.
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
  // Takes up the changes of the batch recorded since the launch.
  void take_changes() {
    for (const batches::BatchChange& change : memory->batch_changes().all())
      batches::add_change(spec.elastic.changes, change);
    memory.take_changes(spec);
  }
  RunView view() { return {spec, state.options, origin, state.times, job, memory, journal}; }
};

class Launcher {
 public:
  explicit Launcher(LaunchPlan plan);
  explicit Launcher(Handover handover);
  ~Launcher();

  // Runs the job to its end, or re-execs meanwhile. Returns the exit code: 0 done, 75 stopped but resumable. Throws
  // Error where the job failed.
  int run();

 private:
  struct Hands;  // carry_out.cpp: one function for each action

  void block_signals();
  void wait_for_events();
  void hear_workers();
  void hear_users();
  void on_signal();
  void serve_clients(std::span<const pollfd> polled);
  void tick();
  void supervise();
  void begin_stage(bool anew);
  void close_files();
  void decide(std::optional<decisions::Event> event);  // and carries out the actions; nothing: no event
  void carry_out(const decisions::Action& action);
  decisions::Moment moment() const;
  void hand_over();
  Json change_batch(const decisions::ChangeRequest& asked);

  Run run_;
  UniqueFd signals_;
  decisions::EventQueue events_;
  RunProcesses& processes_ = run_.state.processes;
  WorkerEvents worker_events_;
  Audits audits_{run_.view()};
  Losses losses_{run_.view(), processes_, {run_.fault_table(), audits_}};
  Crew crew_{run_.view(), processes_, losses_};
  ScribeDesk scribe_{run_.view(), processes_, losses_};
  Hosts hosts_{run_.view(), processes_, run_.state.hosts};
  Stages stages_{run_.view(), processes_, hosts_};
  Speeds speeds_{run_.view(), run_.past()};
  Supervision supervision_{run_.view(), processes_};
  StatusReport report_{run_.view(), processes_, {speeds_, scribe_, hosts_, audits_}};
  Requests requests_{run_.view(), run_.control, {crew_, speeds_, report_, audits_, run_.state.options}};
  Ending ending_{run_.view(), run_.control, {losses_, speeds_, report_, hosts_, audits_, requests_, processes_}};
};

}  // namespace estrain::launch
