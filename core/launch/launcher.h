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

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/manifest.h"
#include "core/comm/job_memory.h"
#include "core/comm/step_record.h"
#include "core/faults/diagnosis.h"
#include "core/host/allocation.h"
#include "core/host/memory_evidence.h"
#include "core/launch/companion.h"
#include "core/launch/control_socket.h"
#include "core/launch/elasticity.h"
#include "core/launch/handover.h"
#include "core/launch/hang.h"
#include "core/launch/pending_change.h"
#include "core/launch/progress.h"
#include "core/launch/run_directory.h"
#include "core/launch/speed_meter.h"
#include "core/launch/speed_watch.h"
#include "core/plan/change.h"
#include "core/plan/fall_back.h"
#include "core/profile/profile_store.h"
#include "core/spec/job_spec.h"

namespace estrain::launch {

inline constexpr int kTickMilliseconds = 100;  // the launcher's loop turns at least so often

// What `train` was asked to do, checked.
struct LaunchPlan {
  std::string run;
  spec::JobSpec spec;
  std::vector<Device> devices;
  bool allow_mixed = false;
  bool oversubscribe = false;  // several workers on one GPU
  bool cuda_streams = false;   // the state has a place for the ESTs' CUDA generators
  double grace_seconds = 0;    // from a signal to the checkpoint; the step under way is given up after that
  std::string checkpoint;      // to go on from; empty: from the seed
  std::string checkpoint_cpu;  // the processor it was made on
  int64_t from_step = 0;
  std::string fault_rules;    // text of the user's own
  bool accepts_data = false;  // though the data files are others than the checkpoint's
  std::string changes;        // of changes.jsonl, up to from_step
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

  // launcher.cpp: the loop and what it sees
  void block_signals();
  void wait_for_events();
  void on_signal();
  void on_worker_message(WorkerProcess& worker);
  void on_worker_error(WorkerProcess& worker, const Json& message);
  void on_worker_end(WorkerProcess& worker);
  void on_scribe_message(int milliseconds);  // waits for one at most so long; -1: no limit
  void on_request(ClientId client, const Json& request, int64_t arrived_ns);
  void tick();
  void attach_memory();
  void note_first_step();
  void begin_training();
  void workers_left_loop();
  void request_stop(std::string why);
  void request_pause();
  WorkerStart worker_start(const Device& device);
  void stop_at_once();
  void answer_stops(const Json& answer);
  bool all_left() const;

  // resize.cpp
  void begin_resize(ClientId client, const Json& request);
  void require_quiet() const;
  struct Wanted {
    std::vector<Device> devices;
    bool oversubscribe = false, mixed = false;  // accepted for them
  };
  void check_wanted(const Wanted& wanted) const;
  void begin_change(PendingChange change, std::optional<int64_t> requested_ns = {});
  void ask_for(PendingChange change, int64_t requested_ns);
  std::vector<WorkerProcess*> unneeded_workers();
  void added_worker_ready();
  void give_up_resize(const Error& error);
  std::vector<size_t> missing_workers();
  void start_missing_workers();
  void change_workers_if_ready();
  void change_workers();
  ResizeUnderWay account_for(const PendingChange& resize);
  void report_resize_if_begun();
  void hurry_leaving();
  void release_unused_slots();

  // elastic.cpp
  void serve_waiting();
  void resize_as_planned(ClientId client);
  void weigh_offer(ClientId client, const Json& request);
  void take_or_decline(ClientId client, const std::vector<std::string>& offered);
  WorkerRoom room_for_workers() const;
  void reclaim(ClientId client, const Json& request, int64_t arrived_ns);
  void hurry_reclaim(int64_t now);
  void hurry_waiting_reclaims(int64_t now);
  void supervise_plan();
  bool judge_trial();
  void follow(const Placement& best, const plan::Plan& now);
  void note_shares();
  bool tried_in_vain(const Placement& placement) const;
  PendingChange change_to(const Placement& placement, std::vector<std::string> held, std::string why) const;
  PendingChange shrunk_to(const std::vector<std::string>& staying, const std::vector<std::string>& held) const;
  void replace_pending(PendingChange change, int64_t arrived_ns);
  void note_decision(std::string what, std::string reason);
  bool is_in_force(const Placement& placement) const;
  std::vector<Device> devices_in_force() const;
  SpeedMeter::Span require_speeds() const;
  int64_t steps_left() const;
  double resize_seconds() const;
  void load_profiles();
  void keep_profiles();
  profile::ProfileStore profile_store(const std::string& path);
  bool workers_are_ordinary() const;

  // recovery.cpp
  void lose(WorkerProcess& worker, faults::Evidence evidence);
  void recover(const Loss& loss, const faults::Diagnosis& diagnosis);
  void replace_starting_worker(const Loss& loss, const faults::Diagnosis& diagnosis);
  void start_lost_workers();
  void cannot_start(const Error& error);
  bool count_fault(int64_t step, const faults::Diagnosis& diagnosis);
  int64_t wait_before_next_ns(const faults::Diagnosis& diagnosis) const;
  void stand_still();
  void report_recovery_if_stepped();
  void lose_scribe(const ChildEnd& ended, bool hung);
  void start_scribe_again();
  void cannot_start_scribe(const Error& error);
  int64_t next_start_ns(const std::string& who, const Json& worker, const Error& error);
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
  Silence silence_of(const WorkerProcess& worker, int64_t now);
  bool begin_again_where_all_wait(const std::vector<Silence>& workers);
  Pace pace() const;
  void measure_anew_on_other_devices();
  int64_t age_ns(int64_t beat_ns, int64_t now) const;
  void note_own_pause(int64_t now);
  void show_life(int64_t now);

  // ending.cpp
  int end();
  int report_stop();
  void report_faults();
  void report_stages();
  [[noreturn]] void fail();
  void save_last_state();
  void wait_for_scribe();
  bool bring_scribe_back();
  void close_scribe();
  void dismiss_workers();
  void kill_workers();
  void kill_worker(WorkerProcess& worker);

  std::vector<WorkerProcess*> all_workers();
  bool workers_exchange() const;
  void start_stage();

  // launcher_status.cpp
  Progress progress();
  Json status();
  Json elastic_status();
  std::optional<comm::RecordHead> last_step_record();
  void log_stage_speed();
  std::string shares_in_force() const;
  bool waits_for_room() const;
  double step_seconds() const;
  // The newest step; the committed one while nobody trains.
  int64_t trained() const { return memory_->header().trained.load(); }

  RunDirectory directory_;
  spec::JobSpec spec_;
  Handover state_;
  UniqueFd memory_fd_, doorbell_, lock_, spec_fd_, library_, signals_;
  std::string checkpoint_;  // the builder's
  std::string checkpoint_cpu_;
  bool accepts_data_ = false;  // the builder: other files than the checkpoint's
  int64_t from_step_ = 0;
  std::unique_ptr<comm::JobMemory> memory_;
  std::optional<checkpoint::Manifest> manifest_;
  std::unique_ptr<ControlServer> control_;
  ProgressPrinter printer_;
  Phase phase_ = Phase::starting;
  Ending ending_ = Ending::none;
  std::string stop_reason_;
  bool stop_at_once_ = false;
  std::vector<ClientId> stop_clients_;
  int64_t stop_deadline_ns_ = 0;  // monotonic; when a stop no longer waits for the step under way. 0: none
  std::optional<PendingChange> pending_;
  std::optional<Error> failure_;
  Json failure_details_;
  std::string failure_log_;  // last words of the process that it was
  faults::FaultTable faults_;
  host::MemoryEvidence memory_evidence_;
  bool first_step_seen_ = false;
  bool closing_scribe_ = false;  // it was told to finish
  std::string last_save_error_;
  int64_t unsaved_step_ = -1;  // whose state could not be saved, the last such
  // What kept the scribe from writing, and how many records it had written then.
  std::string write_error_;
  uint32_t written_before_error_ = 0;
  std::string stage_devices_;  // with their shares, of the stage under way
  // for rates: when and where the stage began, and the last sample of the loop
  int64_t rate_from_ns_ = 0, rate_from_step_ = 0;
  // supervision
  int64_t last_tick_ns_ = 0;              // when the loop last turned
  int64_t shown_life_ns_ = 0;             // when the run's lock was last touched
  int64_t supervised_from_ns_ = 0;        // silence before this is not held against anybody
  Pace pace_;                             // as of the last tick
  std::vector<std::string> measured_on_;  // the devices of that pace
  int64_t stalled_at_ = -1;               // the last step after which all waited for each other
  int64_t stood_still_ns_ = 0;            // since when the workers have been leaving an aborted stage
  int64_t start_missing_at_ns_ = 0;       // when lost workers are replaced: back-off. 0: no one to replace
  int64_t start_scribe_at_ns_ = 0;        // the same of the scribe
  SpeedWatch speed_watch_;
  SpeedMeter speed_meter_;
  // elasticity
  std::unique_ptr<Companion> companion_;
  Elasticity elastic_;
  plan::GainWatch move_watch_{plan::GainWatch::kToMove}, return_watch_{plan::GainWatch::kToReturn},
      resize_watch_{plan::GainWatch::kToResize};
  std::optional<plan::FallBackWatch> fall_back_;  // of the growth on trial
  std::map<std::string, TriedShares> tried_;      // by shares_text()
};

}  // namespace estrain::launch
