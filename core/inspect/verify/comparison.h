#pragma once
// The two sides of a comparison, and its result: the number of equal steps, or the first difference, down to the
// elements of tensors.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/inspect/verify/history.h"
#include "core/job/spec/job_spec.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/state/state_layout.h"
#include "core/state/record/logs/fingerprints.h"
#include "core/state/record/logs/metrics.h"

namespace estrain::verify {

struct UnreadableCheckpoint {
  Step step;
  std::string path;
  std::string why;
};

// One side of a comparison: a run directory, or a single checkpoint, treated as a run with one known state.
struct Subject {
  std::string path;
  bool is_run = false;
  std::optional<spec::JobSpec> spec;  // nothing if the text is no longer readable
  std::string changes;                // text of the change log
  std::vector<RecordedStage> stages;
  record::Metrics metrics;                                  // empty for a checkpoint
  std::unique_ptr<record::FingerprintReader> fingerprints;  // may be absent
  // Paths of the readable checkpoints, all closed: a run may have more checkpoints than a process may have open files.
  std::map<Step, std::string> checkpoints;
  std::string processor;                         // of the newest checkpoint; empty without a checkpoint
  std::vector<UnreadableCheckpoint> unreadable;  // damaged checkpoints of a run
};

// Throws Fault::usage for a path that is neither a run nor a checkpoint, Fault::corrupt for a damaged record or
// a single damaged checkpoint, Fault::io whenever the system refuses, since unread data cannot count as
// identical.
Subject open_subject(const std::string& path);

// Opens a checkpoint of `subject`, without checking elements. Returns nothing if no checkpoint has this step, or a
// running job has pruned it. Throws Fault::io, Fault::corrupt.
std::optional<checkpoint::CheckpointFile> open_checkpoint(const Subject& subject, Step step);

struct ElementDifference {
  uint64_t index = 0;            // flat, in C order
  std::vector<int64_t> at;       // the same index per dimension
  std::string value_a, value_b;  // shortest decimal text that reads back as the same number
  std::string bits_a, bits_b;    // hexadecimal
  std::optional<uint64_t>
      distance;  // floats: representable numbers in between + 1 (ulp); integers: difference. No value for NaN
};

struct TensorDifference {
  std::string path;  // "/model/fc.weight"
  checkpoint::DType dtype;
  std::vector<int64_t> shape;
  uint64_t differing = 0;  // elements
  ElementDifference first;
};

// Compares two tensors of equal type and shape element by element. Returns nothing if both are equal bit for bit (so -0
// differs from 0, and equal NaNs do not differ).
std::optional<TensorDifference> compare_elements(const checkpoint::StateTensor& tensor, const std::byte* a,
                                                 const std::byte* b);

// Returns the number of float32 values between a and b, plus 1; 0 and -0 are neighbours. Returns nothing for a NaN.
std::optional<uint64_t> ulp_distance(float a, float b);
std::optional<uint64_t> ulp_distance(double a, double b);

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
