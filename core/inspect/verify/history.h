#pragma once
// The history of a run: the devices over time, and the change log (changes.jsonl; core/state/record/FORMAT.md).

#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"

namespace estrain::verify {

struct RecordedStage {
  Step from;         // the state at the beginning of the stage
  std::string text;  // "cpu,cpu (2 workers)"

  bool operator==(const RecordedStage&) const = default;
};

// Reads the "stage" lines of events.jsonl, in order. A run that went back to a checkpoint repeats steps: only the last
// devices of a step count. Ignores other and torn lines.
std::vector<RecordedStage> stages_from_events(std::string_view events);
// Reads a checkpoint's `stages`, a JSON list of "stage" lines, with a placeholder for omitted lines.
std::vector<RecordedStage> stages_from_list(std::string_view json);

// Returns the stage that computed the state at `step`: the last stage that began before `step`, otherwise the first
// stage. Null without stages.
const RecordedStage* stage_of(const std::vector<RecordedStage>& stages, Step step);

// Returns the first difference of two change logs in changes with effect up to step `last`, as a sentence, or an empty
// string without a difference. Times, paths and words of changes do not count. A torn last line is ignored.
std::string change_log_difference(std::string_view a, std::string_view b, Step last);

// The changes of one log in effect for steps up to `last`, a sentence each.
std::vector<std::string> changes_in_words(std::string_view log, Step last);

}  // namespace estrain::verify
