#pragma once
// The step of the job. The state exists twice: step t lies in copy t mod 2.
//
//   committed   the step from which a run resumes: the copy in shared memory is whole, and the record is published
//   trained     the newest step with a published record: the committed one, or one whose state lies in GPUs' memory
//   whole       the step whose copy a stage in shared memory has written to the end; 0: none since repair()
//
// Order of the stores of a step, all by the last worker to arrive at the meeting: the copy, its learning rate, `whole`,
// the record (record_ring.h), `committed`, `trained`. All stores are sequentially consistent: a process that sees a
// store sees all earlier stores. A worker may end between two stores: repair() then commits the step if `whole` names
// the step and the record is published, and else discards the step.
//
// 1. The committed copy is never written: write copy (t + 1) mod 2 only while t is committed.
// 2. committed <= trained <= committed + the steps that GPUs have not saved.
// 3. A step's state is committed once, and never with other bits.

#include <optional>

#include "core/base/ids.h"
#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

class CommitWord {
 public:
  explicit CommitWord(MemoryHeader& words) : words_(words) {}

  Step committed() const { return Step(words_.committed.load()); }
  Step trained() const { return Step(words_.trained.load()); }
  // Returns the learning rate of the update that made the copy of `step`; 0: none yet.
  double lr(Step step) const { return words_.lr[step.value & 1].load(); }

  // For the builder, first of all processes: sets `step` as the step of the state.
  void begin_at(Step step, double lr);

  // For a carrier in shared memory: notes a whole copy of `step`, before the record is published; then commits.
  void note_whole(Step step, double lr);
  Step whole() const { return Step(words_.whole.load()); }
  void commit(Step step);
  // For carriers in GPUs' memory: the record of `step` is published; later, the state is in shared memory.
  void note_trained(Step step) { words_.trained.store(step.value); }
  void commit_saved(Step step, double lr);

  // Returns the last step with a published evaluation; Step(-1): no evaluation.
  Step evaluated() const { return Step(words_.evaluated.load()); }
  void note_evaluated(Step step) { words_.evaluated.store(step.value); }

  // Has a step that was not finite, and the steps up to `step`, trained again in shared memory, on any devices.
  void look_closely_until(Step step) { words_.shared_until.store(step.value); }
  bool looks_closely() const { return words_.trained.load() < words_.shared_until.load(); }

  // Repairs while no worker is in the loop. `newest`: the step of the newest record, if the record is a step's. Returns
  // the number of lost trained steps, which are trained again.
  int64_t repair(std::optional<Step> newest);

 private:
  MemoryHeader& words_;
};

}  // namespace estrain::comm
