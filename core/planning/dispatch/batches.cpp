#include <algorithm>

#include "core/base/error.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/turn.h"
#include "core/planning/scheduling/batch_rules.h"

namespace estrain::dispatch {
namespace {

// Returns whether an epoch with this batch is over. Each batch doubles limits (planning/scheduling/batch_rules.h),
// needs its speed measured (goodput_batch() there), and may cost a launch.
bool may_change(const Job& job, double now) {
  const BatchState& state = job.batch;
  return job.request.batch->epochs > 0 && job.phase == Phase::running && !job.is_unwanted &&
         state.epoch > state.since_epoch && now >= state.not_before;
}

struct Choice {
  int64_t batch;
  double lr_factor;
};

// Returns the choice by the policy's rule, or nothing if the policy has no rule for this job.
std::optional<Choice> best_batch(scheduling::BatchRule rule, const SharedSpeeds& shared, const Job& job,
                                 int64_t devices) {
  const scheduling::BatchTerms& terms = job.request.batch->terms;
  if (rule == scheduling::BatchRule::linear) {
    const int64_t batch = scheduling::linear_batch(terms, devices, job.request.devices, job.batch.epoch);
    return Choice{batch, scheduling::linear_lr_factor(terms, batch)};
  }
  if (rule == scheduling::BatchRule::by_goodput && job.batch.noise_scale > 0) {
    const scheduling::GoodputTerms by_goodput = {terms, job.request.ests, job.batch.noise_scale, job.batch_in_force()};
    const int64_t batch = scheduling::goodput_batch(by_goodput, shared.batch_times_of(job));
    return Choice{batch, scheduling::goodput_lr_factor(by_goodput, batch)};
  }
  return std::nullopt;
}

}  // namespace

void choose_batch(DispatchTurn& turn, const SharedSpeeds& shared, Job& job) {
  if (job.phase == Phase::changing) return;
  job.batch.wanted = 0;
  if (!job.request.batch || !may_change(job, turn.now)) return;
  const int64_t devices = job.targeted();
  if (devices == 0 || devices != static_cast<int64_t>(slots_of(turn.state, job.id).size())) return;
  const std::optional<Choice> best = best_batch(turn.policy.batches, shared, job, devices);
  if (!best || best->batch == job.batch_in_force()) return;
  job.batch.wanted = best->batch;
  job.batch.wanted_lr_factor = best->lr_factor;
}

// The pool or the job's owner has changed the batch.
void on(DispatchTurn& turn, const BatchInForce& event) {
  State& state = turn.state;
  Job& job = state.jobs.at(event.job);
  if (!job.request.batch || is_over(job.phase)) return;
  job.batch.epoch = event.epoch.value_or(job.batch.epoch);
  if (event.noise_scale > 0) job.batch.noise_scale = event.noise_scale;
  const int64_t before = job.batch_in_force();
  const bool is_new = event.batch != before || event.lr_factor != job.batch.lr_factor;
  job.batch.batch = event.batch;
  job.batch.lr_factor = event.lr_factor;
  if (!is_new) return;
  job.batch.since_epoch = job.batch.epoch;
  job.speeds.rescale(static_cast<double>(event.batch) / static_cast<double>(before));
  job.seen_at = 0;
  state.underway.is_stale = true;
  turn.act(note_of(job, "batch",
                   fmt::format("mini-batches of {} samples, learning rates times {:.6g}, in epoch {}", event.batch,
                               event.lr_factor, job.batch.epoch + 1)));
}

void on(DispatchTurn& turn, const BatchRefused& event) {
  State& state = turn.state;
  const double now = turn.now;
  Job& job = state.jobs.at(event.job);
  const int64_t wanted = std::exchange(job.batch.wanted, 0);
  if (is_over(job.phase) || wanted == 0) return;
  job.batch.not_before = now + turn.settings.growth_pause;
  scheduling::BatchTerms& terms = job.request.batch->terms;
  const int64_t in_force = job.batch_in_force();
  // Next, a batch half way from the present batch is tried.
  if (event.for_good && wanted > in_force) terms.most = std::min(terms.most, in_force + (wanted - in_force) / 2);
  if (event.for_good && wanted < in_force) terms.least = std::max(terms.least, in_force - (in_force - wanted) / 2);
  if (job.phase == Phase::changing) job.phase = Phase::running;
  turn.state.underway.asked_to_let_go.erase(job.id);
  turn.act(note_of(job, "batch_refused", fmt::format("mini-batches of {} samples: {}", wanted, event.reason)));
  wake(turn);
}

}  // namespace estrain::dispatch
