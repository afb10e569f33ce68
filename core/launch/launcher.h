#pragma once
// The launcher of a job: starts workers and the scribe, watches them, answers the control socket, and ends the run. It
// neither links LibTorch nor touches the state: that lies in shared memory (core/comm/job_memory.h).
//
// core/conduct decides: the launcher turns what it sees into events, hands them to decide(), and carries the actions
// out (carry_out.cpp). How a resize and a recovery go is said there. The launcher measures: who is silent (sentry.h),
// why a process ended (recovery.cpp), which shares would be faster (adviser.h).

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/manifest.h"
#include "core/comm/job_memory.h"
#include "core/comm/step_record.h"
#include "core/conduct/decide.h"
#include "core/faults/diagnosis.h"
#include "core/host/allocation.h"
#include "core/host/memory_evidence.h"
#include "core/launch/adviser.h"
#include "core/launch/control_socket.h"
#include "core/launch/handover.h"
#include "core/launch/progress.h"
#include "core/launch/run_directory.h"
#include "core/launch/sentry.h"
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

// What is told of a lost worker if the run ends by it.
struct LossRecord {
  Json details;
  std::string last_words;  // of its log
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
  struct Hands;  // carry_out.cpp: one function for each action
  void carry_out(const conduct::Action& action);

  // launcher.cpp: the loop and what it sees
  void block_signals();
  void wait_for_events();
  void on_signal();
  void on_worker_message(conduct::WorkerId id);
  void on_worker_error(conduct::WorkerId id, const Json& message);
  void on_worker_end(conduct::WorkerId id);
  void on_scribe_message(int milliseconds);  // waits for one at most so long; -1: no limit
  void on_request(ClientId client, const Json& request, int64_t arrived_ns);
  void decide(conduct::Event event);  // and carries out what follows
  conduct::Moment moment() const;
  void tick();
  void attach_memory();
  void note_first_step();
  WorkerStart worker_start(const Device& device) const;
  WorkerProcess* process_of(conduct::WorkerId id);  // null: it is gone

  // resize.cpp
  void begin_resize(ClientId client, const Json& request);
  struct Wanted {
    std::vector<Device> devices;
    bool oversubscribe = false, mixed = false;  // accepted for them
  };
  void check_wanted(const Wanted& wanted) const;
  void report_resize(const conduct::ResizeUnderWay& done);
  void release_unused_slots();
  void begin_training();
  void start_stage();
  bool workers_exchange() const;

  // hosts.cpp
  std::vector<std::string> hosts_in_force() const;  // other than this one
  Json plan_of_hosts() const;
  void begin_stage_on_hosts();
  Json order_of(size_t index) const;
  void on_courier_message();
  void lose_host(const std::string& host, const std::string& why);
  void end_courier();

  // elastic.cpp
  void resize_as_planned(ClientId client);
  void ask_offer(ClientId client, const Json& request);
  void take_or_decline(ClientId client, const std::vector<std::string>& offered);
  WorkerRoom room_for_workers() const;
  void reclaim(ClientId client, const Json& request, int64_t arrived_ns);
  void follow_advice();
  void note_decision(std::string what, std::string reason);
  Course course() const;
  void load_profiles();
  void keep_profiles();
  profile::ProfileStore profile_store(const std::string& path);

  // recovery.cpp
  void lose(conduct::WorkerId id, faults::Evidence evidence);
  void lose_scribe(const ChildEnd& ended, bool hung);
  conduct::Verdict diagnose_start(const Json& worker, const Error& error);
  int64_t first_undrained_step();
  void report_recovery(const conduct::ReportRecovery& report);

  // supervision.cpp
  void supervise();
  bool allocation_ends(int64_t now);
  void supervise_scribe(int64_t now);
  void supervise_speed();
  std::vector<SpeedMeter::Worker> work_done();
  void show_life(int64_t now);

  // ending.cpp
  int end();
  int report_stop();
  void report_faults();
  void report_stages();
  [[noreturn]] void fail();
  void wait_for_scribe();
  void answer_stops(const Json& answer);
  void dismiss_workers();
  void kill_workers();

  // launcher_status.cpp
  Progress progress();
  Json status();
  Json elastic_status();
  std::optional<comm::RecordHead> last_step_record();
  void log_stage_speed(int64_t stage);
  bool waits_for_room() const;
  double step_seconds() const;
  // The newest step; the committed one while nobody trains, the one to go on from before anybody does.
  int64_t trained() const { return memory_ ? memory_->commit().trained().value : from_step_; }

  RunDirectory directory_;
  spec::JobSpec spec_;
  Handover state_;
  UniqueFd memory_fd_, doorbell_, lock_, spec_fd_, library_, courier_bell_, signals_;
  std::string checkpoint_;  // the builder's
  std::string checkpoint_cpu_;
  bool accepts_data_ = false;  // the builder: other files than the checkpoint's
  int64_t from_step_ = 0;
  std::unique_ptr<comm::JobMemory> memory_;
  std::optional<checkpoint::Manifest> manifest_;
  std::unique_ptr<ControlServer> control_;
  ProgressPrinter printer_;
  conduct::State& job_ = state_.job;   // decide() alone changes it
  std::deque<conduct::Event> events_;  // to be decided
  bool deciding_ = false;
  std::map<conduct::WorkerId, LossRecord> losses_;
  faults::FaultTable faults_;
  host::MemoryEvidence memory_evidence_;
  bool first_step_seen_ = false;
  // What kept the scribe from writing, and how many records it had written then.
  std::string write_error_;
  uint32_t written_before_error_ = 0;
  // for rates: when and where the stage began, and the last sample of the loop
  int64_t rate_from_ns_ = 0, rate_from_step_ = 0;
  int64_t shown_life_ns_ = 0;  // when the run's lock was last touched
  Sentry sentry_;
  Adviser adviser_;
};

}  // namespace estrain::launch
