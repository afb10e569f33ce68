#pragma once
// Keeps a committed copy of the state from being written until the scribe has read the copy. A worker, or the launcher
// between stages, holds; workers wait before writing; the scribe releases.
//
// 1. At most one step is held: the committed step at the beginning of the hold.
// 2. The copy of a held step is not written. The other copy, of the next step, is.
// 3. Only the scribe releases. A hold outlives a scribe that has not released the state; the next scribe releases it.
// A release counts `releases` up after it has cleared `held_step`. A waiting process reads both in the other order, to
// sleep through no release. All accesses are sequentially consistent.

#include <optional>

#include "core/base/ids.h"
#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

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
