#pragma once
// The launcher of a job: starts workers and the scribe, watches them, answers the control socket, changes the set of
// devices and ends the run. It neither links LibTorch nor touches the state: that lies in shared memory
// (core/comm/job_memory.h).
//
//   starting --> training <--> warming --> pausing --> training …   (re-exec after each change of devices)
//       |            |             |           |
//       |            +---- recovering ---------+    a worker is lost: the others stand still, warm, until it is
//       replaced |                        |
//       +------------------------+------ over: finished, stopped or failed
//
// A resize first starts and warms what is new while the others train, then lets all workers leave their loop after one
// agreed step, hands out new ranges, and re-execs. If what is new does not come up, the job stays as it is.
//
// A worker that dies, hangs or is stopped is lost: the step under way is given up, a new worker takes the place of the
// lost one, and that step is done again from the committed copy of the state, which no worker writes. What caused it,
// and whether to try again, is the fault table's to say (diagnosis.h).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/manifest.h"
#include "core/comm/job_memory.h"
#include "core/comm/step_record.h"
#include "core/launch/allocation.h"
#include "core/launch/control_socket.h"
#include "core/launch/diagnosis.h"
#include "core/launch/handover.h"
#include "core/launch/memory_evidence.h"
#include "core/launch/progress.h"
#include "core/launch/run_directory.h"
#include "core/launch/speed_meter.h"
#include "core/launch/speed_watch.h"
#include "core/spec/job_spec.h"

namespace estrain::launch {

// What `train` was asked to do, checked.
struct LaunchPlan {
  std::string run;
  spec::JobSpec spec;
  std::vector<Device> devices;
  bool allow_mixed = false;
  double grace_seconds = 0;    // from a signal to the checkpoint; the step under way is given up after that
  std::string checkpoint;      // to go on from; empty: from the seed
  std::string checkpoint_cpu;  // the processor it was made on
  int64_t from_step = 0;
  UniqueFd lock;
};

class Launcher {
 public:
  explicit Launcher(LaunchPlan plan);
  explicit Launcher(Handover handover);
  ~Launcher();

  // Runs the job to its end, or re-execs on the way. Returns the exit code: 0 done, 75 stopped but resumable.
  // Throws Error where the job failed.
  int run();

 private:
  enum class Phase { starting, training, warming, pausing, recovering, over };
  enum class Ending { none, finished, stopped };

  // The workers are about to change: a user asked for other devices, or a worker is lost, or both.
  struct PendingChange {
    bool asked_for = false;  // by `resize`
    std::optional<ClientId> client;
    std::vector<Device> devices;       // to run on
    std::vector<WorkerProcess> added;  // started for it
    int64_t requested_ns = 0, requested_step = 0, warmed_ns = 0;
    double step_seconds_before = 0;
  };

  // launcher.cpp: the loop and what it sees
  void block_signals();
  void wait_for_events();
  void on_signal();
  void on_worker_message(WorkerProcess& worker);
  void on_worker_error(WorkerProcess& worker, const Json& message);
  void on_worker_end(WorkerProcess& worker);
  void on_scribe_message(int milliseconds);  // waits for one at most so long; -1: no limit
  void on_request(ClientId client, const Json& request);
  void tick();
  void attach_memory();
  void note_first_step();
  void begin_training();
  void workers_left_loop();
  void request_stop(std::string why);
  void request_pause();
  void stop_at_once();

  // resize.cpp
  void begin_resize(ClientId client, const Json& request);
  void added_worker_ready();
  void give_up_resize(const Error& error);
  void start_missing_workers();
  void change_workers_if_ready();
  void change_workers();
  ResizeUnderWay account_for(const PendingChange& resize);
  void report_resize_if_begun();
  void release_unused_slots();

  // recovery.cpp
  void lose(WorkerProcess& worker, Evidence evidence);
  void recover(const Loss& loss, const Diagnosis& diagnosis);
  void replace_starting_worker(const Loss& loss, const Diagnosis& diagnosis);
  bool may_recover(const Loss& loss, const Diagnosis& diagnosis);
  void stand_still();
  void report_recovery_if_stepped();
  void lose_scribe(const ChildEnd& ended, bool hung);
  int64_t first_undrained_step();
  const comm::WorkerPulse* pulse_of(const WorkerProcess& worker);

  // supervision.cpp
  void supervise();
  bool allocation_ends(int64_t now);
  bool supervise_processes(int64_t now);
  bool supervise_progress(int64_t now);
  void supervise_scribe(int64_t now);
  void supervise_speed();
  std::vector<SpeedMeter::Worker> work_done();
  void end_hung_worker(WorkerProcess& worker, std::string how);
  int64_t patience_ns() const;
  int64_t age_ns(int64_t beat_ns, int64_t now) const;

  // ending.cpp
  int end();
  int report_stop();
  void report_faults();
  [[noreturn]] void fail();
  void save_last_state();
  void close_scribe();
  void dismiss_workers();
  void kill_workers();

  std::vector<WorkerProcess*> all_workers();
  void start_stage();

  // launcher_status.cpp
  Progress progress();
  Json status();
  std::optional<comm::RecordHead> last_step_record();
  void log_stage_speed();
  double step_seconds() const;
  int64_t committed() const { return memory_->header().committed.load(); }

  RunDirectory directory_;
  spec::JobSpec spec_;
  Handover state_;
  UniqueFd memory_fd_, doorbell_, lock_, signals_;
  std::string checkpoint_;  // the builder's
  std::string checkpoint_cpu_;
  int64_t from_step_ = 0;
  std::unique_ptr<comm::JobMemory> memory_;
  std::optional<checkpoint::Manifest> manifest_;
  std::unique_ptr<ControlServer> control_;
  ProgressPrinter printer_;
  Phase phase_ = Phase::starting;
  Ending ending_ = Ending::none;
  std::string stop_reason_;
  bool stop_at_once_ = false;
  std::optional<ClientId> stop_client_;
  int64_t stop_deadline_ns_ = 0;  // monotonic; when a stop no longer waits for the step under way. 0: none
  std::optional<PendingChange> pending_;
  std::optional<Error> failure_;
  Json failure_details_;
  FaultTable faults_;
  MemoryEvidence memory_evidence_;
  bool first_step_seen_ = false;
  bool closing_scribe_ = false;  // it was told to finish
  std::string last_save_error_;
  // for rates: when and where the stage began, and the last sample of the loop
  int64_t rate_from_ns_ = 0, rate_from_step_ = 0;
  // supervision
  int64_t last_tick_ns_ = 0;         // when the loop last turned
  int64_t supervised_from_ns_ = 0;   // silence before this is not held against anybody
  int64_t stood_still_ns_ = 0;       // since when the workers have been leaving an aborted stage
  int64_t start_missing_at_ns_ = 0;  // when lost workers are replaced: back-off. 0: no one to replace
  bool less_memory_ = false;         // workers from here on read ahead less
  SpeedWatch speed_watch_;
  SpeedMeter speed_meter_;
};

}  // namespace estrain::launch
