#pragma once
// The launcher's end of the scribe: starts the scribe, gives orders, hears reports.

#include <string>

#include "core/run/launch/launcher/parts/losses.h"
#include "core/run/launch/launcher/parts/run.h"
#include "core/state/record/scribe_messages.h"

namespace estrain::launch {

class ScribeDesk {
 public:
  ScribeDesk(Run& run, Losses& losses, Audits& audits) : run_(run), losses_(losses), audits_(audits) {}

  // Starts a scribe for the records not drained yet. The first scribe of a launch begins after the step resumed by the
  // launch.
  void start();
  void start_first();
  // Waits for a report at most this long; -1: no limit.
  void hear(int milliseconds);

  void save(Step step);       // the state of `step` is held
  void save_last(Step step);  // SaveBegun, once the state can be held
  void finish();

  // Returns why the scribe does not write its waiting records; empty: the scribe writes, or has nothing to write.
  std::string no_room() const;

 private:
  int64_t first_undrained_step() const;
  void note_end();
  void end_by_damage(const record::SaveFailed& failed);
  void on_report(const record::Saved& saved);
  void on_report(const record::SaveFailed& failed);
  void on_report(const record::Evaluated& evaluated);
  void on_report(const record::Skipped& skipped);
  void on_report(const record::WriteFailed& failed);
  void on_report(const comm::Failed& failed);

  Run& run_;
  Losses& losses_;
  Audits& audits_;
  // The error which kept the scribe from writing, and the number of records written before the error.
  std::string write_error_;
  uint32_t written_before_error_ = 0;
};

}  // namespace estrain::launch
