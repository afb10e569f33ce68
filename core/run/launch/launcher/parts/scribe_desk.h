#pragma once
// The launcher's end of the scribe: starts the scribe, gives orders, hears reports.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/run/launch/launcher/parts/losses.h"
#include "core/run/launch/launcher/parts/run_view.h"
#include "core/state/comm/memory/record_ring.h"
#include "core/state/record/scribe_messages.h"

namespace estrain::launch {

// Returns the step after which a new scribe begins, while workers train and no scribe drains. The files may hold later
// records: these are still in the ring, and are written again. `trained` reads the newest step with a published record.
int64_t step_before_undrained(const std::function<int64_t()>& trained, comm::RecordRing ring);

class ScribeDesk {
 public:
  ScribeDesk(const RunView& run, RunProcesses& processes, Losses& losses)
      : run_(run), processes_(processes), losses_(losses) {}

  // Starts a scribe for the records not drained yet. The first scribe of a launch begins after the step resumed by the
  // launch. start() returns CannotStartScribe if the scribe cannot be started.
  std::optional<decisions::Event> start();
  void start_first();
  // Takes up the scribe of the launcher before this launcher. `accuracy`: of the last evaluation.
  void go_on(std::optional<double> accuracy) { accuracy_ = accuracy; }
  // Waits for a report at most this long; -1: no limit.
  std::optional<decisions::Event> hear(std::chrono::milliseconds limit);

  void save(Step step);                                  // the state of `step` is held
  std::optional<decisions::Event> save_last(Step step);  // SaveBegun, once the state can be held
  void finish();
  // Kills the scribe, which hangs.
  decisions::ScribeLost end_hung();

  std::optional<double> accuracy() const { return accuracy_; }  // of the last evaluation
  // Returns why the scribe does not write its waiting records; empty: the scribe writes, or has nothing to write.
  std::string no_room() const;

 private:
  int64_t last_drained_step() const;
  using Heard = std::optional<decisions::Event>;
  Heard note_end();
  Heard end_by_damage(const record::SaveFailed& failed);
  Heard on_report(const record::Saved& saved);
  Heard on_report(const record::SaveFailed& failed);
  Heard on_report(const record::Evaluated& evaluated);
  Heard on_report(const record::Skipped& skipped);
  Heard on_report(const record::WriteFailed& failed);
  Heard on_report(const comm::Failed& failed);

  const RunView run_;
  RunProcesses& processes_;
  Losses& losses_;
  std::optional<double> accuracy_;
  // The error which kept the scribe from writing, and the number of records written before the error.
  std::string write_error_;
  uint32_t written_before_error_ = 0;
};

}  // namespace estrain::launch
