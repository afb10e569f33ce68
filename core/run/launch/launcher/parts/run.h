#pragma once
// The common ground of a launcher's parts: the run's descriptors, shared memory and channels, and the job as decisions
// see it. The parts: crew.h (workers), scribe_desk.h, losses.h, stages.h, speeds.h, requests.h, supervision.h,
// status_report.h, ending.h. Each part has the Run, and further parts for its work.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/run/decisions/event.h"
#include "core/run/decisions/state/state.h"
#include "core/run/launch/control/control_socket.h"
#include "core/run/launch/control/progress.h"
#include "core/run/launch/launcher/processes/handover.h"
#include "core/run/launch/preflight/launch_plan.h"
#include "core/run/launch/profiling/adviser.h"
#include "core/state/checkpoint/state/manifest.h"
#include "core/state/comm/job_memory.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::launch {

inline constexpr int kTickMilliseconds = 100;  // the launcher's loop turns at least this often

// Descriptors of a run, kept open for all its processes.
struct Descriptors {
  UniqueFd memory, doorbell, lock, spec, library, courier;

  SharedDescriptors shared() const {
    return {memory.get(), doorbell.get(), lock.get(), spec.get(), library.get(), courier.get()};
  }
};

// The source from which the first worker builds the state.
struct Origin {
  std::string checkpoint;     // empty: the job's seed
  std::string processor;      // the processor that made the checkpoint
  bool accepts_data = false;  // allows other data files than the checkpoint's
  int64_t step = 0;
  std::string changes;  // of changes.jsonl, up to this step
};

struct Run {
  explicit Run(LaunchPlan& plan);  // moves the kept parts out of the plan
  explicit Run(Handover handover);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  run_directory::RunDirectory directory;
  spec::JobSpec spec;
  Handover state;
  decisions::State& job = state.job;  // only decide() changes the job
  Descriptors descriptors;
  Origin origin;
  std::unique_ptr<comm::JobMemory> memory;  // null until the first workers are ready
  std::optional<checkpoint::Manifest> manifest;
  // A change of the batch: the job stops for the change, and a new launch in the place of this program resumes the run.
  std::optional<decisions::ChangeRequest> change;
  bool on_record = false;       // put_on_record() is done, by this launcher or an earlier one in this launch
  bool left_to_others = false;  // hosts that are cut off may resume the run
  std::unique_ptr<ControlServer> control;
  ProgressPrinter printer;
  Adviser adviser;
  std::function<void(decisions::Event)> decide;  // and carries out the actions
  std::function<decisions::Moment()> moment;     // as decide() sees it

  // Returns the newest step: the committed step while no worker trains, the step to resume from before the first stage.
  int64_t trained() const { return memory ? memory->commit().trained().value : origin.step; }
  // The first workers are ready. Throws Fault::bug where the memory is not.
  void attach_memory();
  // Writes job.toml and changes.jsonl: from here on the spec of this launch is the spec of the run. The call follows
  // all checks, the workers' checks last: a refused launch leaves the run unchanged. Throws Fault::io.
  void put_on_record();
};

// Returns the record of the newest step. Returns nothing before the first step, or if the record has left the ring.
std::optional<comm::RecordHead> last_step_record(const comm::JobMemory& memory);

}  // namespace estrain::launch
