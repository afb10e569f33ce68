#include "core/engine/train/carrier/step_commit.h"

#include <algorithm>
#include <cmath>

#include "core/base/clock.h"
#include "core/engine/train/evaluation/learning_rates.h"
#include "core/state/comm/meetings/bell.h"

namespace estrain::train {

StepCommit::StepCommit(Workplace& place, const StageOrder& order)
    : place_(place), pulse_(place.memory.pulse(order.rank())), beyond_(order.beyond) {}

bool StepCommit::is_finite() const {
  const comm::RecordView record = place_.memory.ring().pending();
  return record.head->suspect == comm::Nonfinite::Where::nowhere &&
         std::all_of(record.est_losses, record.est_losses + place_.memory.ests(),
                     [](float loss) { return std::isfinite(loss); });
}

double StepCommit::complete(Step step) {
  comm::JobMemory& memory = place_.memory;
  const comm::RecordView record = memory.ring().pending();
  comm::RecordHead& head = *record.head;
  head.kind = comm::RecordKind::step;
  head.step = step.next();
  head.epoch = place_.job.manifest().epoch_at(step);
  head.time_ns = monotonic_ns();
  memory.clock().note_step(head.time_ns);
  head.lr = learning_rates(place_.job, memory, step, place_.host_state(step))[0];
  const EstResults results(place_.job.manifest(), record);
  head.loss = results.loss();
  results.fold_terms();
  memory.meetings().clear_claims();
  memory.audits().take_request(step.next());
  return head.lr;
}

bool StepCommit::publish() {
  pulse_.beat(comm::Activity::waiting_for_scribe, monotonic_ns());  // waits if the ring is full
  if (!place_.memory.ring().publish()) return false;
  place_.memory.clock().note_progress(monotonic_ns());
  return true;
}

void StepCommit::settle(Step step) {
  comm::JobMemory& memory = place_.memory;
  const bool stands = memory.commit().committed() == step, saves = place_.job.timetable().saves_after(step);
  if (stands && saves && (!beyond_ || beyond_->records)) {
    pulse_.beat(comm::Activity::waiting_for_scribe, monotonic_ns());  // waits while an earlier hold is in force
    memory.hold().hold(step);
    memory.clock().note_progress(monotonic_ns());
  }
  if (saves || memory.ring().waiting() > memory.ring().capacity() / 2) ring_doorbell(place_);
  const bool pauses = beyond_ ? memory.hosts().pause_agreed() : memory.gate().pause_asked();
  if (stands && pauses) memory.gate().end_after(step, monotonic_ns());
}

void ring_doorbell(const Workplace& place) { comm::ring(place.doorbell); }

}  // namespace estrain::train
