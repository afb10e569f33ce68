#pragma once
// What a run ran on, and when.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"

namespace estrain::verify {

struct Stage {
  Step from;         // the state it began with
  std::string text;  // "cpu,cpu (2 workers)"

  bool operator==(const Stage&) const = default;
};

// From the "stage" lines of events.jsonl, in the order they happened: a run that went back to a checkpoint repeats
// steps, and only what it ran on in the end counts. Other lines and torn ones are left out.
std::vector<Stage> stages_from_events(std::string_view events);
// From a checkpoint's `stages`, a JSON list of such lines and, where it is long, of what stands for those left out.
std::vector<Stage> stages_from_list(std::string_view json);

// The stage that computed the state at `step`; nullptr where none is known.
const Stage* stage_of(const std::vector<Stage>& stages, Step step);

}  // namespace estrain::verify
