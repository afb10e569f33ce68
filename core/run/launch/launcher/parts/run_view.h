#pragma once
// The view of a run that all parts of its launcher have: the parts read the job and the shared memory, and write in the
// journal. A part returns an event for the launcher to decide about.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/run/decisions/state/state.h"
#include "core/run/launch/control/progress.h"
#include "core/run/launch/launcher/processes/handover.h"
#include "core/run/launch/preflight/start.h"
#include "core/state/checkpoint/state/manifest.h"
#include "core/state/comm/job_memory.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::launch {

// The source from which the first worker builds the state.
struct StateOrigin {
  std::string checkpoint;     // empty: the job's seed
  std::string processor;      // the processor that made the checkpoint
  bool accepts_data = false;  // allows other data files than the checkpoint's
  int64_t step = 0;
  std::string changes;  // of changes.jsonl, up to this step
};

// The run's directory with its events, and the lines for the user.
class Journal {
 public:
  // `on_record`: put_on_record() is done, by an earlier launcher in this launch.
  Journal(run_directory::RunDirectory folder, double every_seconds, bool on_record)
      : directory(std::move(folder)), printer(every_seconds), on_record_(on_record) {}

  const run_directory::RunDirectory directory;
  ProgressPrinter printer;

  // Writes a line of events.jsonl.
  void log(std::string_view event, const Json& details) const { directory.log_event(event, details); }
  // Prints a line for the user.
  void note(const std::string& line) { printer.note(line); }
  // Writes job.toml and changes.jsonl, once: from here on the spec of this launch is the spec of the run. The call
  // follows all checks, the workers' checks last: a refused launch leaves the run unchanged. Throws Fault::io.
  void put_on_record(const spec::JobSpec& spec, const std::string& changes);

 private:
  bool on_record_;
};

// The shared memory of the run, from the time when the first workers are ready.
class RunMemory {
 public:
  // `from_step`: the step to resume from.
  RunMemory(int descriptor, int64_t from_step) : descriptor_(descriptor), from_step_(from_step) {}

  // The first workers are ready. Throws Fault::bug where the memory is not.
  void attach();
  // Tells whether a worker has built the state, though the memory may not be attached yet.
  bool is_built() const;

  explicit operator bool() const { return memory_ != nullptr; }  // the memory is attached
  comm::JobMemory* get() const { return memory_.get(); }         // null: not yet
  comm::JobMemory* operator->() const { return memory_.get(); }
  comm::JobMemory& operator*() const { return *memory_; }
  // With the changes of the batch that are in force.
  const checkpoint::Manifest& manifest() const { return *manifest_; }
  // Takes the changes of the batch in `spec`.
  void take_changes(const spec::JobSpec& spec);

  // Returns the newest step: the committed step while no worker trains, the step to resume from before the first stage.
  int64_t trained() const { return memory_ ? memory_->commit().trained().value : from_step_; }

 private:
  int descriptor_;
  int64_t from_step_;
  std::unique_ptr<comm::JobMemory> memory_;
  std::optional<checkpoint::Manifest> manifest_;
};

struct RunView {
  const spec::JobSpec& spec;
  const RunOptions& options;
  const StateOrigin& origin;
  const LaunchTimes& times;
  const decisions::RunState& job;
  const RunMemory& memory;
  Journal& journal;

  int64_t trained() const { return memory.trained(); }
};

// Returns the request for a new launch of the run, on these devices, with the options of the present one.
StartRequest request_to_continue(const RunView& run, std::string devices);

// Returns the record of the newest step. Returns nothing before the first step, or if the record has left the ring.
std::optional<comm::RecordHead> last_step_record(const comm::JobMemory& memory);

}  // namespace estrain::launch
