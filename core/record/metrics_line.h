#pragma once
// One line of metrics.jsonl, between text and record. Internal to this folder.

#include <string>
#include <string_view>
#include <variant>

#include "core/record/step_record.h"

namespace estrain::record {

// With the line feed.
std::string to_line(const StepRecord& record);
std::string to_line(const EvaluationRecord& evaluation);

// Any line of JSON with the keys of FORMAT.md; those written by to_line are read quickly, for verify reads many of
// them. Without the line feed. Throws Fault::corrupt saying `source` ("metrics.jsonl:17").
using Line = std::variant<StepRecord, EvaluationRecord>;
Line parse_line(std::string_view text, std::string_view source);

}  // namespace estrain::record
