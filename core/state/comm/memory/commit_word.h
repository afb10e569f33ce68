#pragma once
// The step that the job is at. The state exists twice: step t lies in copy t mod 2.
//
//   committed   the step that a run goes on from: its copy in shared memory is whole, and its record is out
//   trained     the newest step whose record is out: the committed one, or a later one whose state lies in GPUs' memory
//   whole       the step whose copy a stage in shared memory has written to its end; 0: none since repair()
//
// Order of the stores of a step, all by the last worker to arrive at the meeting: the copy, its learning rate, `whole`,
// the record (record_ring.h), `committed`, `trained`. All are sequentially consistent, so a process that sees one sees
// those before it. A worker may die between any two of them: repair() then commits the step if `whole` names it and its
// record is out, and else forgets it.
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
  // The learning rate of the update that made the copy of `step`; 0: none yet.
  double lr(Step step) const { return words_.lr[step.value & 1].load(); }

  // The builder's, before anybody else looks: the state is that of `step`.
  void begin_at(Step step, double lr);

  // A carrier in shared memory: the copy of `step` stands, before its record is published; then the rest.
  void note_whole(Step step, double lr);
  Step whole() const { return Step(words_.whole.load()); }
  void commit(Step step);
  // Carriers in GPUs' memory: the record of `step` is out; and later, its state is in shared memory.
  void note_trained(Step step) { words_.trained.store(step.value); }
  void commit_saved(Step step, double lr);

  // The last step whose evaluation has been published; Step(-1): none.
  Step evaluated() const { return Step(words_.evaluated.load()); }
  void note_evaluated(Step step) { words_.evaluated.store(step.value); }

  // A step that was not finite is trained again in shared memory, whatever the devices, and those up to `step`.
  void look_closely_until(Step step) { words_.shared_until.store(step.value); }
  bool looks_closely() const { return words_.trained.load() < words_.shared_until.load(); }

  // While nobody is in the loop. `newest`: the step of the newest record, if that is a step's. Returns how many trained
  // steps are lost, and so done again.
  int64_t repair(std::optional<Step> newest);

 private:
  MemoryHeader& words_;
};

}  // namespace estrain::comm
