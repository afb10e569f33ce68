#include "core/comm/stage_control.h"

#include <optional>

#include "core/base/clock.h"

namespace estrain::comm {
namespace {

// Another host may have committed the step: its record, complete already, is published if it is not yet. Where the ring
// has no room for it, the step is done again.
void publish_agreed(const JobMemory& memory) {
  const Step whole = memory.commit().whole();
  if (whole != memory.commit().committed().next() || memory.hosts().agreed() != whole) return;
  const RecordHead& pending = *memory.ring().pending().head;
  if (pending.kind != RecordKind::step || pending.step != whole ||
      memory.ring().waiting() + 1 >= memory.ring().capacity())
    return;
  memory.ring().publish();
}

}  // namespace

void open_stage(const JobMemory& memory) {
  memory.gate().open();
  memory.save_request().clear();
  memory.meetings().open();
  memory.hosts().open();
  memory.audits().open();
  const int64_t now = monotonic_ns();
  memory.clock().note_progress(now);
  for (WorkerRank worker; worker.value < memory.ests(); ++worker) {
    memory.pulse(worker).beat(Activity::idle, now);
    memory.pulse(worker).computing_ns.store(0);
    memory.pulse(worker).mini_batches.store(0);
  }
}

void abort_stage(const JobMemory& memory) {
  memory.gate().abort();
  memory.meetings().wake_all();
  memory.hosts().wake_all();
  memory.hold().wake_all();
}

int64_t repair(const JobMemory& memory) {
  publish_agreed(memory);
  std::optional<Step> newest_step;
  if (const auto newest = memory.ring().newest()) {
    if (newest->head->kind == RecordKind::step) newest_step = newest->head->step;
    if (newest->head->kind == RecordKind::evaluation) memory.commit().note_evaluated(newest->head->step);
  }
  const int64_t lost = memory.commit().repair(newest_step);
  memory.ring().clear_pending();
  return lost;
}

}  // namespace estrain::comm
