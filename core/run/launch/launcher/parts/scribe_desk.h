#pragma once
// The launcher's end of the scribe: starts it, gives it orders, hears its reports.

#include <string>

#include "core/run/launch/launcher/parts/losses.h"
#include "core/run/launch/launcher/parts/run.h"
#include "core/state/record/scribe_messages.h"

namespace estrain::launch {

class ScribeDesk {
 public:
  ScribeDesk(Run& run, Losses& losses, Audits& audits) : run_(run), losses_(losses), audits_(audits) {}

  // Starts a scribe, which goes on after the records that have been drained. The first one of a launch goes on after
  // the step that the run goes on from.
  void start();
  void start_first();
  // Waits for a report at most so long; -1: no limit.
  void hear(int milliseconds);

  void save(Step step);       // which is held
  void save_last(Step step);  // SaveBegun, once the state can be held
  void finish();

  // The reason why it does not write although there is something to write; empty: it writes.
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
  // The error that kept it from writing, and how many records it had written then.
  std::string write_error_;
  uint32_t written_before_error_ = 0;
};

}  // namespace estrain::launch
