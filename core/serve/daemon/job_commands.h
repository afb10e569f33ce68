#pragma once
// What the dispatcher wants done with jobs, by this program's own commands: train, resize, offer, reclaim, change. None
// is waited for. On another host, an agent gives the command.

#include "core/serve/daemon/served_pool.h"

namespace estrain::serve {

class JobCommands {
 public:
  explicit JobCommands(ServedPool& pool) : pool_(pool) {}

  void carry_out(const dispatch::StartJob& action);
  void carry_out(const dispatch::GrowJob& action);
  void carry_out(const dispatch::ShrinkJob& action);
  void carry_out(const dispatch::ChangeBatch& action);
  void carry_out(const dispatch::StopJob& action);
  void carry_out(const dispatch::KillJob& action);
  // Those that wait for the agents of their runs are given once these listen, or given up.
  void send_waiting();
  void signal_launcher(dispatch::JobId id, int number);

 private:
  using JobId = dispatch::JobId;

  void ask(JobId id, std::vector<std::string> words, Asked::What what);
  void send(JobId id);
  void launch(JobId id, std::vector<std::string> words);

  ServedPool& pool_;
};

}  // namespace estrain::serve
