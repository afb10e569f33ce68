#pragma once
// The workers of a run: started, heard, told to leave, killed.

#include <set>
#include <string>

#include "core/conduct/action.h"
#include "core/launch/run/parts/losses.h"
#include "core/launch/run/parts/run.h"

namespace estrain::launch {

class Crew {
 public:
  Crew(Run& run, Losses& losses, Audits& audits) : run_(run), losses_(losses), audits_(audits) {}

  // The first workers of the run, one for each device.
  void start_first(const Assignment& devices);
  void start(const conduct::StartWorkers& start);

  // Handles a worker's message, or its end.
  void hear(conduct::WorkerId id);
  void note_end(conduct::WorkerId id);

  void end_hung(const conduct::EndHungWorker& end);
  void kill(const conduct::KillWorker& kill);
  void tell_leave(conduct::WorkerId id);
  void dismiss_all();
  void kill_all();

  // How many more there is memory for, if they take as much of their own as those that are there.
  WorkerRoom room() const;

 private:
  WorkerStart worker_start(const Device& device) const;
  void make_builder(WorkerStart& start) const;
  bool starts_by_fork_here(const Device& device) const;
  void begin_servers(const Devices& devices);
  void start_one(const conduct::WorkerOrder& order, bool to_be_built, int patience_ms);
  void note_data(const comm::Ready& ready);
  void lose_by_error(conduct::WorkerId id, const comm::Failed& failed);

  Run& run_;
  Losses& losses_;
  Audits& audits_;
  std::set<std::string> data_notes_;  // said
};

}  // namespace estrain::launch
