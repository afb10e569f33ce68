#pragma once
// One line of metrics.jsonl, between text and record. Internal to this folder.

#include <string>
#include <string_view>
#include <variant>

#include "core/state/record/logs/step_record.h"

namespace estrain::record {

// With the line feed.
std::string to_line(const StepRecord& record);
std::string to_line(const EvaluationRecord& evaluation);

// Reads any line of JSON with the keys of FORMAT.md, without its line feed. Lines written by to_line are read fast,
// since verify reads many. Throws Fault::corrupt naming `source` ("metrics.jsonl:17").
using Line = std::variant<StepRecord, EvaluationRecord>;
Line parse_line(std::string_view text, std::string_view source);

}  // namespace estrain::record
