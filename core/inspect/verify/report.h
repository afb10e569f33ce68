#pragma once
// A comparison as text for a terminal and as JSON for a script.

#include <string>

#include "core/base/json/json.h"
#include "core/inspect/verify/comparison.h"

namespace estrain::verify {

// Several lines, the verdict first: "identical: …" or "different: first at step 101 …".
std::string to_text(const Comparison& comparison);

// The line of one tensor, and the tensor's JSON object.
std::string describe(const TensorDifference& tensor);
Json to_json(const TensorDifference& tensor);

// {"identical", "a", "b", "steps": {"common", "first", "last"}, "ests", "digests", "states": as steps, "checkpoints",
//  "spec_keys", "changes", "replay_from", "difference": null or {"step", "evidence", "losses", "digests", "tensors",
//  "remarks", "stage_a", "stage_b"}}
Json to_json(const Comparison& comparison);

}  // namespace estrain::verify
