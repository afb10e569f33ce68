#pragma once
// The pool's queue and history on the disk. A full disk keeps no job from training: the chronicle waits and writes
// later.

#include <vector>

#include "core/pool/daemon/served_pool.h"
#include "core/pool/ledger/ledger.h"

namespace estrain::pool {

class Chronicle {
 public:
  // Throws as Ledger::open.
  explicit Chronicle(ServedPool& pool) : pool_(pool), ledger_(Ledger::open(pool.directory.database())) {}

  dispatch::State load() { return ledger_.load(); }
  double asked(dispatch::JobId id) const { return ledger_.asked(id); }
  void add(const Line& line) { lines_.push_back(line); }
  void carry_out(const dispatch::Note& note);  // and prints the note
  // Saves if there are news; figures alone once a second.
  void save();
  void save_all();
  // Throws if the ledger cannot be written at once.
  void save_or_throw() { ledger_.save(pool_.state(), {}); }

 private:
  ServedPool& pool_;
  Ledger ledger_;
  std::vector<Line> lines_;  // of the history, not written yet
  double saved_ = 0;
  bool is_behind_ = false;  // the ledger could not be written
};

}  // namespace estrain::pool
