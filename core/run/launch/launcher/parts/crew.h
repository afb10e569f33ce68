#pragma once
// The workers of a run: started, heard, told to leave, killed.

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/run/decisions/action.h"
#include "core/run/launch/launcher/parts/losses.h"
#include "core/run/launch/launcher/parts/run_view.h"
#include "core/run/launch/profiling/adviser.h"
#include "core/state/comm/messages/worker_messages.h"

namespace estrain::launch {

// The unreadable samples that the run leaves out (data.skip_bad; core/data/reading/skip_bad.h). Workers report such
// samples. The run's list is the events "left_out" of events.jsonl: each sample once, even if several workers, hosts or
// launches report the sample.
class LeftOutSamples {
 public:
  explicit LeftOutSamples(const RunView& run) : run_(run) {}

  // Records a sample that is not on the list yet, and tells the user. Returns the error that ends the job if the list
  // has data.skip_bad samples already.
  std::optional<Error> note(const comm::LeftOutSample& found);

 private:
  using Sample = std::pair<std::string, int64_t>;  // set, number

  void read_events();

  const RunView run_;
  std::optional<std::set<Sample>> list_;  // nothing: the events are not read yet
};

class Crew {
 public:
  Crew(const RunView& run, RunProcesses& processes, Losses& losses)
      : run_(run), processes_(processes), losses_(losses), left_out_(run) {}

  // Starts the first workers of the run, one for each device, and puts the workers into `job`.
  void start_first(const Assignment& devices, decisions::RunState& job);
  // Returns CannotStart if a worker cannot be started.
  std::optional<decisions::Event> start(const decisions::StartWorkers& start);

  // Handles a worker's message or end.
  std::optional<decisions::Event> hear(decisions::WorkerId id);
  std::optional<decisions::Event> note_end(decisions::WorkerId id);

  std::optional<decisions::Event> end_hung(const decisions::EndHungWorker& end);
  std::optional<decisions::Event> kill(const decisions::KillWorker& kill);
  void tell_leave(decisions::WorkerId id);
  void dismiss_all();
  void kill_all();

  // Returns how many more workers the memory allows, if each takes as much of its own as the present workers.
  WorkerRoom room() const;

 private:
  WorkerStart worker_start(const Device& device) const;
  void make_builder(WorkerStart& start) const;
  bool starts_by_fork_here(const Device& device) const;
  void begin_servers(const Devices& devices);
  void start_one(const decisions::WorkerOrder& order, bool to_be_built, std::chrono::milliseconds patience);
  void note_data(const comm::Ready& ready);
  std::optional<decisions::Event> lose_by_error(decisions::WorkerId id, const comm::Failed& failed);
  std::optional<decisions::Event> leave_out(decisions::WorkerId id, const comm::LeftOutSample& found);

  const RunView run_;
  RunProcesses& processes_;
  Losses& losses_;
  LeftOutSamples left_out_;
  std::set<std::string> data_notes_;  // said
};

}  // namespace estrain::launch
