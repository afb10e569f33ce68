#pragma once
// The workers of a run: started, heard, told to leave, killed.

#include <set>
#include <string>

#include "core/run/decisions/action.h"
#include "core/run/launch/launcher/parts/losses.h"
#include "core/run/launch/launcher/parts/run.h"

namespace estrain::launch {

class Crew {
 public:
  Crew(Run& run, Losses& losses, Audits& audits) : run_(run), losses_(losses), audits_(audits) {}

  // Starts the first workers of the run, one for each device.
  void start_first(const Assignment& devices);
  void start(const decisions::StartWorkers& start);

  // Handles a worker's message or end.
  void hear(decisions::WorkerId id);
  void note_end(decisions::WorkerId id);

  void end_hung(const decisions::EndHungWorker& end);
  void kill(const decisions::KillWorker& kill);
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
  void start_one(const decisions::WorkerOrder& order, bool to_be_built, int patience_ms);
  void note_data(const comm::Ready& ready);
  void lose_by_error(decisions::WorkerId id, const comm::Failed& failed);

  Run& run_;
  Losses& losses_;
  Audits& audits_;
  std::set<std::string> data_notes_;  // said
};

}  // namespace estrain::launch
