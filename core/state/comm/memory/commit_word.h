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

// GPUs bring their state to shared memory: each worker brings a part. The last worker to arrive at a step's meeting
// asks; all see the same answer to wants(), since no worker leaves before the meeting is over.
//
// 1. One save at a time: the next save is asked for when all parts of this save have arrived.
// 2. The last part to arrive commits the step.
// The step is stored last: a process that sees the step sees all other words of the request. All accesses are
// sequentially consistent.
class SaveRequest {
 public:
  explicit SaveRequest(MemoryHeader& words) : words_(words) {}

  // waits: no worker continues before the state has arrived.
  void ask(Step step, bool waits) {
    words_.saved_parts.store(0);
    words_.save_waits.store(waits ? 1 : 0);
    words_.save_step.store(step.value);
  }
  bool wants(Step step) const { return words_.save_step.load() == step.value && words_.trained.load() == step.value; }
  bool waits() const { return words_.save_waits.load() != 0; }
  // Adds a part. Returns true for the last part.
  bool add_part(uint32_t of_parts) { return words_.saved_parts.fetch_add(1) + 1 == of_parts; }

 private:
  friend class StageControl;
  void clear() { words_.save_step.store(-1); }

  MemoryHeader& words_;
};

// Keeps a committed copy of the state from being written until the scribe has read the copy. A worker, or the launcher
// between stages, holds; workers wait before writing; the scribe releases.
//
// 1. At most one step is held: the committed step at the beginning of the hold.
// 2. The copy of a held step is not written. The other copy, of the next step, is.
// 3. Only the scribe releases. A hold outlives a scribe that has not released the state; the next scribe releases it.
// A release counts `releases` up after it has cleared `held_step`. A waiting process reads both in the other order, to
// sleep through no release. All accesses are sequentially consistent.
class StateHold {
 public:
  explicit StateHold(MemoryHeader& words) : words_(words) {}

  std::optional<Step> held() const;
  // Tells whether the copy of the state of `step` may be written.
  bool is_writable(Step step) const;
  // Sleeps until the copy is writable. False on abort.
  bool wait_writable(Step step);
  // Sleeps until an earlier hold is released. False on abort.
  bool hold(Step step);
  // Does not sleep: returns false while an earlier hold stands.
  bool try_hold(Step step);
  void release();

 private:
  friend class StageControl;
  void wake_all();  // when the stage is aborted
  template <typename Ready>
  bool wait(Ready&& ready);

  MemoryHeader& words_;
};

}  // namespace estrain::comm
