#include "core/engine/train/carrier/step_commit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/clock.h"
#include "core/engine/train/evaluation/learning_rates.h"
#include "core/state/comm/meetings/bell.h"
#include "core/state/comm/sums/tree_cut.h"

namespace estrain::train {
namespace {

// Returns the mean of the ESTs' losses: each loss times 1/N, summed by the tree of the gradients.
float tree_mean(const float* losses, int64_t lo, int64_t hi, float factor) {
  if (hi - lo == 1) return losses[lo] * factor;
  const int64_t middle = comm::middle_of(lo, hi);
  return tree_mean(losses, lo, middle, factor) + tree_mean(losses, middle, hi, factor);
}

}  // namespace

float one_nan(float value) { return std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value; }

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
  const int64_t ests = memory.ests();
  head.kind = comm::RecordKind::step;
  head.step = step.next();
  head.epoch = place_.job.manifest().epoch_at(step);
  head.time_ns = monotonic_ns();
  memory.clock().note_step(head.time_ns);
  head.lr = learning_rates(place_.job, memory, step, place_.host_state(step))[0];
  head.loss = one_nan(tree_mean(record.est_losses, 0, ests, 1.0f / static_cast<float>(ests)));
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
