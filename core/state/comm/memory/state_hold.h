#pragma once
// Keeps a committed copy of the state from being written until the scribe has read it. A worker, or the launcher
// between stages, holds; workers wait before they write; the scribe releases.
//
// 1. At most one step is held. It is the committed one when the hold begins.
// 2. The copy of a held step is not written. The other copy is: that of the next step.
// 3. Only the scribe releases. A hold outlives the scribe that has not released it; the next scribe does.
// A release counts `releases` up after it has cleared `held_step`; a process that waits reads them in the other order,
// so that it sleeps through no release. All accesses are sequentially consistent.

#include <optional>

#include "core/base/ids.h"
#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

class StateHold {
 public:
  explicit StateHold(MemoryHeader& words) : words_(words) {}

  std::optional<Step> held() const;
  // Whether the copy that the state of `step` lies in may be written.
  bool is_writable(Step step) const;
  // Sleeps until it is. False on abort.
  bool wait_writable(Step step);
  // Sleeps until an earlier hold is released. False on abort.
  bool hold(Step step);
  // False while an earlier hold stands.
  bool try_hold(Step step);
  void release();

 private:
  friend class StageControl;
  void wake_all();  // when the stage is given up
  template <typename Ready>
  bool wait(Ready&& ready);

  MemoryHeader& words_;
};

}  // namespace estrain::comm
