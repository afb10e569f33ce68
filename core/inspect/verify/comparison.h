#pragma once
// The result of a comparison: the number of equal steps, or the first difference.

#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/inspect/verify/element.h"
#include "core/inspect/verify/subject.h"

namespace estrain::verify {

// The kind of the first difference, in the order within a step: losses are computed from the state before the step, the
// record describes the state after it, and the checkpoint holds that state.
enum class Evidence {
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
  Evidence evidence;
  std::vector<LossDifference> losses;     // of this step, by virtual rank
  std::vector<std::string> digests;       // names with different digests after this step, in the model's order
  std::vector<TensorDifference> tensors;  // element by element, if both have a checkpoint of this step
  std::vector<std::string> remarks;       // sentences: which checkpoint differs from its run's record, …
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
  std::string short_file;  // a sentence naming the record file that ends before the other; empty if neither does
  std::vector<UnreadableCheckpoint> unreadable;
  std::vector<Step> recorded;  // its checkpoints that equal the record of their step
  std::vector<RecordedStage> stages;
  std::vector<std::string> changes;  // changes of its job from its change log, a sentence each
  std::string processor;  // from its checkpoints: at the step of the difference, or the last one; empty if unknown
};

struct Comparison {
  SideSummary a, b;
  std::vector<std::string> spec_keys;  // differing keys that define the bits: the two are not expected to agree
  std::string changes;                 // the difference between the change logs; empty if none
  int64_t steps = 0;                   // steps with losses on both sides
  Step first, last;                    // the first and last of these steps
  int64_t ests = 0;                    // number of ESTs whose losses were compared at every step
  int64_t digests = 0;                 // compared at each step of `states`; 0: one side recorded none
  CommonSteps states;                  // steps with digests on both sides
  std::vector<Step> checkpoints;       // checkpoints compared tensor by tensor and equal
  std::optional<Difference> difference;
  std::optional<Step> replay_from;  // the last equal checkpoint of both before the difference

  bool identical() const { return !difference; }
};

}  // namespace estrain::verify
