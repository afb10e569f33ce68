#pragma once
// The pool's queue and history on the disk. A full disk keeps no job from training: the chronicle waits and writes
// later.

#include <utility>
#include <vector>

#include "core/planning/dispatch/action.h"
#include "core/pool/ledger/ledger.h"

namespace estrain::pool {

class Chronicle {
 public:
  explicit Chronicle(Ledger ledger) : ledger_(std::move(ledger)) {}

  dispatch::State load() { return ledger_.load(); }
  double asked(dispatch::JobId id) const { return ledger_.asked(id); }
  void add(const Line& line) { lines_.push_back(line); }
  void keep(const dispatch::JobEnd& end) { ends_.push_back(end); }
  // Adds a line, and prints the note.
  void note(const dispatch::WriteHistory& note, const dispatch::State& state);
  // Saves if there are news; figures alone once a second.
  void save(const dispatch::State& state);
  void save_all(const dispatch::State& state);
  // Throws if the ledger cannot be written at once.
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
