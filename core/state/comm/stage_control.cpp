#include "core/state/comm/stage_control.h"

#include <optional>

#include "core/base/clock.h"

namespace estrain::comm {

// Publishes the complete record of a step that another host may have committed, unless the record is published already.
// If the ring has no room for the record, the step is trained again.
void StageControl::publish_agreed() {
  const Step whole = memory_.commit().whole();
  if (whole != memory_.commit().committed().next() || memory_.hosts().agreed() != whole) return;
  const RecordHead& pending = *memory_.ring().pending().head;
  if (pending.kind != RecordKind::step || pending.step != whole ||
      memory_.ring().waiting() + 1 >= memory_.ring().capacity())
    return;
  memory_.ring().publish();
}

void StageControl::open() {
  memory_.gate().open();
  memory_.save_request().clear();
  memory_.meetings().open();
  memory_.hosts().open();
  memory_.sums().begin_step(static_cast<size_t>(memory_.ests()));
  memory_.audits().open();
  const int64_t now = monotonic_ns();
  memory_.clock().note_progress(now);
  for (WorkerRank worker; worker.value < memory_.ests(); ++worker) memory_.pulse(worker).begin(now);
}

void StageControl::abort() {
  memory_.gate().abort();
  memory_.meetings().wake_all();
  memory_.hosts().wake_all();
  memory_.sums().wake_all();
  memory_.hold().wake_all();
}

int64_t StageControl::repair() {
  publish_agreed();
  std::optional<Step> newest_step;
  if (const auto newest = memory_.ring().newest()) {
    if (newest->head->kind == RecordKind::step) newest_step = newest->head->step;
    if (newest->head->kind == RecordKind::evaluation) memory_.commit().note_evaluated(newest->head->step);
  }
  const int64_t lost = memory_.commit().repair(newest_step);
  memory_.ring().clear_pending();
  return lost;
}

}  // namespace estrain::comm
