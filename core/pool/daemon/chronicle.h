#pragma once
// A Chronicle is the pool's queue and history on the disk: a Ledger, and the lines and ends to be written with the next
// state. A full disk keeps no job from training: after a failure the chronicle warns once, keeps everything, and tries
// again once a second.

#include <utility>
#include <vector>

#include "core/planning/dispatch/action.h"
#include "core/pool/ledger/ledger.h"

namespace estrain::pool {

class Chronicle {
 public:
  explicit Chronicle(Ledger ledger) : ledger_(std::move(ledger)) {}

  dispatch::State load() { return ledger_.load(); }
  // Returns when other devices were last requested for the job, in seconds since 1970; 0: never.
  double asked(dispatch::JobId id) const { return ledger_.asked(id); }
  // Keep a line of the history, or the end of a job, for the next save.
  void add(const Line& line) { lines_.push_back(line); }
  void keep(const dispatch::JobEnd& end) { ends_.push_back(end); }
  // Adds the note as a line of the history with the present time, and prints the note. `state` has the job's name.
  void note(const dispatch::WriteHistory& note, const dispatch::State& state);
  // Saves the state, lines and ends if a line waits, or if the last save was at least a second ago: the daemon calls
  // this function in every round, and most rounds change only figures. Does not throw an Error.
  void save(const dispatch::State& state);
  // Saves without waiting for the second: for the end of the daemon. Does not throw an Error.
  void save_all(const dispatch::State& state);
  // Returns true if the last save has failed.
  bool is_behind() const { return is_behind_; }
  // Saves the state and ends, without the lines, for a request that must not be answered before its job is on the disk.
  // Throws an Error if the ledger cannot be written.
  void save_or_throw(const dispatch::State& state) {
    ledger_.save(state, {}, ends_);
    ends_.clear();
  }

 private:
  Ledger ledger_;
  std::vector<Line> lines_;  // of the history, not written yet
  std::vector<dispatch::JobEnd> ends_;
  double saved_ = 0;
  bool is_behind_ = false;  // the ledger could not be written
};

}  // namespace estrain::pool
