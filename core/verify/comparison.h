#pragma once
// What a comparison found: equal over so many steps, or the first thing that differs.

#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/verify/element.h"
#include "core/verify/subject.h"

namespace estrain::verify {

// Where the first difference shows. Within a step in this order: losses are computed from the state before the step,
// the record is taken of the state after it, the checkpoint holds that state.
enum class Evidence {
  tensors,     // the two do not have the same tensors or ESTs
  loss,        // of an EST, at a step
  record,      // digests in the fingerprints, of the state after a step
  checkpoint,  // checkpoints of both
  own_record,  // a checkpoint is not the state that was recorded at its step
};

struct LossDifference {
  VirtualRank est;
  float a, b;
};

struct Difference {
  Step step;
  Evidence evidence;
  std::vector<LossDifference> losses;     // of this step, by virtual rank
  std::vector<std::string> digests;       // names whose digests differ after this step, in the model's order
  std::vector<TensorDifference> tensors;  // element by element, where both have a checkpoint of this step
  std::vector<std::string> remarks;       // sentences: which checkpoint is not what its run recorded, …
};

struct CommonSteps {
  int64_t count = 0;
  Step first, last;
};

// What is known of one side, for the report.
struct SideSummary {
  std::string path;
  bool is_run = false;
  int64_t steps = 0;  // recorded
  Step first, last;
  std::string short_file;  // which of its records ends before the other, as a sentence; empty if neither does
  std::vector<UnreadableCheckpoint> unreadable;
  std::vector<Step> recorded;  // its checkpoints found to be what was recorded at their step
  std::vector<Stage> stages;
  std::vector<std::string> changes;  // of its job while it ran, by its change log, a sentence each
  std::string processor;  // by its checkpoints: at the step of the difference, or the last one; empty if not known
};

struct Comparison {
  SideSummary a, b;
  std::vector<std::string> spec_keys;  // that differ and define the bits: the two are not expected to agree
  std::string changes;                 // how the change logs differ; empty if they do not
  int64_t steps = 0;                   // whose losses both recorded
  Step first, last;                    // of them
  int64_t ests = 0;                    // whose losses were compared at every step
  int64_t digests = 0;                 // compared at each step of `states`; 0: one side recorded none
  CommonSteps states;                  // steps whose digests both recorded
  std::vector<Step> checkpoints;       // of both, compared tensor by tensor and equal
  std::optional<Difference> difference;
  std::optional<Step> replay_from;  // the last checkpoint before the difference that both have and that is equal

  bool identical() const { return !difference; }
};

}  // namespace estrain::verify
