#pragma once
// The result of a comparison: the number of equal steps, or the first difference.

#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/inspect/verify/element.h"
#include "core/inspect/verify/subject.h"

namespace estrain::verify {

// The kind of the first difference, in the order within a step: losses come from the state before the step, the record
// describes the state after the step, and the checkpoint holds the state after the step.
enum class DifferenceKind {
  tensors,     // the two have different tensors or ESTs
  loss,        // the loss of an EST at a step
  record,      // the digests in the fingerprints of the state after a step
  checkpoint,  // the checkpoints of both
  own_record,  // a checkpoint differs from the state recorded at its step
};

struct LossDifference {
  VirtualRank est;
  float a, b;
};

struct Difference {
  Step step;
  DifferenceKind evidence;
  std::vector<LossDifference> losses;     // of this step, by virtual rank
  std::vector<std::string> digests;       // names with different digests after this step, in the model's order
  std::vector<TensorDifference> tensors;  // element by element, if both have a checkpoint of this step
  std::vector<std::string> remarks;       // sentences: a checkpoint differs from the record, …
};

struct CommonSteps {
  int64_t count = 0;
  Step first, last;
};

// Information about one side, for the report.
struct SideSummary {
  std::string path;
  bool is_run = false;
  int64_t steps = 0;  // recorded
  Step first, last;
  std::string short_file;  // a sentence with the name of the record file that is too short; else empty
  std::vector<UnreadableCheckpoint> unreadable;
  std::vector<Step> recorded;  // checkpoints equal to the record of their step
  std::vector<RecordedStage> stages;
  std::vector<std::string> changes;  // changes of the job from the change log, a sentence each
  std::string processor;  // from checkpoints: at the step of the difference, or the last one; empty if unknown
};

struct Comparison {
  SideSummary a, b;
  std::vector<std::string> spec_keys;  // differing keys that define the bits: agreement is not expected
  std::string changes;                 // the difference between the change logs; empty without a difference
  int64_t steps = 0;                   // steps with losses on both sides
  Step first, last;                    // the first and last of these steps
  int64_t ests = 0;                    // number of ESTs whose losses were compared at every step
  int64_t digests = 0;                 // compared at each step of `states`; 0: one side without digests
  CommonSteps states;                  // steps with digests on both sides
  std::vector<Step> checkpoints;       // checkpoints compared tensor by tensor and equal
  std::optional<Difference> difference;
  std::optional<Step> replay_from;  // the last equal checkpoint of both before the difference

  bool identical() const { return !difference; }
};

}  // namespace estrain::verify
