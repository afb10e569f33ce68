#pragma once
// The differences that a resume allows: in the data files of the run, and in the learning rates.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/data/files/identity.h"
#include "core/job/spec/job_spec.h"

namespace estrain::launch {

// Finds out whether a resumed run still has the data of its training so far, before anything is written. The workers
// check their own opened files again (core/data/files/identity.h).

// Returns the changes of the files named by `section` since `known`, a checkpoint's CheckpointMeta::data, was taken.
// Reads no file whose stamp is unchanged. Throws Fault::io where a file is missing, Fault::corrupt.
std::vector<data::DataChange> changes_since(const std::string& known, const spec::DataSection& section);
// Returns the same for all files of a job (core/data/job_data.h). Samples made by code are compared by the workers.
std::vector<data::DataChange> changes_since(const std::string& known, const spec::JobSpec& spec);

// Returns the lines of `changes` for changes.jsonl (core/state/record/FORMAT.md), as accepted at `step`.
std::string change_log_lines(const std::vector<data::DataChange>& changes, Step step);

// A resume with other values of [schedule], asked for by --set: one cycle made longer, a later or slower fall. The
// change counts for the steps after the checkpoint that is resumed. Their rates are the new schedule's, counted from
// the job's beginning: as of a new scheduler of PyTorch that was called as often as there are steps (or epochs). The
// change is on record in changes.jsonl (core/state/record/FORMAT.md), and later resumes find it there. A checkpoint of
// an earlier step has the former schedule. A resume from there (later checkpoints are damaged, or an audit does not
// vouch for them) makes the change again, for the steps after that checkpoint, and records the change with that step: a
// launch has one schedule, so the steps between are trained with the new one.
//
// The name of the schedule stays, and the metric of "plateau", whose state goes by it.
class ScheduleChange {
 public:
  // From the spec of the run to the spec to continue with, after `step`. `changed`: spec::changed_keys().
  ScheduleChange(const spec::JobSpec& before, const spec::JobSpec& after, const std::vector<std::string>& changed,
                 Step step);

  // The changed keys that a resume may not change.
  const std::vector<std::string>& others() const { return others_; }

  bool is_asked_for(const std::vector<std::string>& overrides) const;
  // Whether the log has the change after this step or a later one. `log`: text of changes.jsonl.
  bool is_in(std::string_view log) const;
  std::string line() const;      // for changes.jsonl
  std::string in_words() const;  // "schedule.period = 40 instead of 20"
  // "--set schedule.period=40": asks for the change.
  std::string as_words_of_command() const;

 private:
  struct Values {
    std::string key, was, is;  // as TOML; "not set"
  };
  std::vector<std::string> others_;
  std::vector<Values> values_;
  Step step_;
};

// Says what a longer run means for the learning rates; empty where rates go on as before.
std::string words_of_longer_run(const spec::ScheduleSection& schedule);

}  // namespace estrain::launch
