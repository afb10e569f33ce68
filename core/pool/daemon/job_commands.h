#pragma once
// Carries out the dispatcher's actions on jobs, by this program's own commands: train, resize, offer, reclaim, change.
// The daemon waits for no command to end. On another host, an agent gives the command.

#include "core/pool/daemon/served_pool.h"

namespace estrain::pool {

class JobCommands {
 public:
  explicit JobCommands(ServedPool& pool) : pool_(pool) {}

  void carry_out(const dispatch::StartJob& action);
  void carry_out(const dispatch::GrowJob& action);
  void carry_out(const dispatch::ShrinkJob& action);
  void carry_out(const dispatch::ChangeBatch& action);
  void carry_out(const dispatch::StopJob& action);
  void carry_out(const dispatch::KillJob& action);
  // Gives commands whose agents listen now; gives up commands whose agents do not come.
  void send_waiting();
  void signal_launcher(dispatch::JobId id, int number);

 private:
  using JobId = dispatch::JobId;

  void ask(JobId id, std::vector<std::string> words, Asked::What what);
  void send(JobId id);
  void launch(JobId id, std::vector<std::string> words);

  ServedPool& pool_;
};

}  // namespace estrain::pool
