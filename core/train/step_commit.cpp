#include "core/train/step_commit.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/clock.h"
#include "core/comm/tree_cut.h"
#include "core/train/learning_rates.h"

namespace estrain::train {
namespace {

// The mean of the ESTs' losses: each times 1/N, summed by the tree of the gradients.
float tree_mean(const float* losses, int64_t lo, int64_t hi, float factor) {
  if (hi - lo == 1) return losses[lo] * factor;
  const int64_t middle = comm::middle_of(lo, hi);
  return tree_mean(losses, lo, middle, factor) + tree_mean(losses, middle, hi, factor);
}

}  // namespace

float one_nan(float value) { return std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value; }

StepCommit::StepCommit(Workplace& place, const StageOrder& order)
    : place_(place), pulse_(place.memory.pulse(order.worker.value)) {}

bool StepCommit::is_finite() const {
  const comm::RecordView record = comm::pending_record(place_.memory);
  return record.head->suspect == comm::Nonfinite::Where::nowhere &&
         std::all_of(record.est_losses, record.est_losses + place_.memory.header().ests,
                     [](float loss) { return std::isfinite(loss); });
}

double StepCommit::complete(Step step) {
  comm::MemoryHeader& header = place_.memory.header();
  const comm::RecordView record = comm::pending_record(place_.memory);
  comm::RecordHead& head = *record.head;
  const int64_t ests = header.ests;
  head.kind = comm::RecordKind::step;
  head.step = step.next().value;
  head.epoch = place_.job.manifest().epoch_at(step.value);
  head.time_ns = monotonic_ns();
  const int64_t took = head.time_ns - header.progress_ns.exchange(head.time_ns);
  if (took > header.longest_step_ns.load()) header.longest_step_ns.store(took);
  head.lr = learning_rates(place_.job, place_.memory, step.value, place_.host_state(step.value))[0];
  head.loss = one_nan(tree_mean(record.est_losses, 0, ests, 1.0f / static_cast<float>(ests)));
  header.next_sum.store(0);
  header.next_update.store(0);
  return head.lr;
}

bool StepCommit::publish() {
  pulse_.beat(comm::Activity::waiting_for_scribe, monotonic_ns());  // where the ring is full
  if (!comm::publish_record(place_.memory)) return false;
  place_.memory.header().progress_ns.store(monotonic_ns());
  return true;
}

void StepCommit::settle(Step step) {
  comm::MemoryHeader& header = place_.memory.header();
  const bool stands = header.committed.load() == step.value, saves = place_.job.saves_after(step.value);
  if (stands && saves) {
    pulse_.beat(comm::Activity::waiting_for_scribe, monotonic_ns());  // where an earlier hold still stands
    place_.memory.hold(step.value);
    header.progress_ns.store(monotonic_ns());
  }
  if (saves || header.published.load() - header.drained.load() > header.ring_records / 2) ring_doorbell(place_);
  if (stands && header.pause_request.load() != 0) {
    header.stopped_ns.store(monotonic_ns());
    header.stage_end.store(step.value);
  }
}

void ring_doorbell(const Workplace& place) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t rung = ::write(place.doorbell, &one, sizeof one);
}

}  // namespace estrain::train
