#include "core/engine/train/stage.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/base/process/cpu_affinity.h"
#include "core/engine/train/carrier/step_commit.h"
#include "core/engine/train/evaluation/evaluation.h"
#include "core/engine/train/evaluation/learning_rates.h"
#include "core/engine/train/evaluation/outputs_for_metrics.h"
#include "core/engine/train/job/trial.h"
#include "core/job/spec/defaults.h"

namespace estrain::train {
namespace {

constexpr int64_t kMostReaders = 16;  // the limit where the loader finds their number

data::LoaderOptions loader_options(const TrainingJob& job, const device::ComputeDevice& device, Step from_step) {
  data::LoaderOptions options;
  options.readers = std::max<int64_t>(1, job.spec().data.readers);
  if (job.spec().data.readers == 0) options.most_readers = std::min<int64_t>(kMostReaders, cpus_of_affinity());
  const auto batch_bytes =
      static_cast<uint64_t>(job.samples().sampler().batch()) * job.samples().train().shape().bytes();
  options.prefetch = spec::first_prefetch(job.spec().data);
  options.most_prefetch = spec::most_prefetch(job.spec().data, batch_bytes);
  options.seed = static_cast<uint64_t>(job.spec().job.seed);
  options.mixing = job.samples().mixing();
  options.steps = std::max<int64_t>(0, job.timetable().total_steps() - from_step.value);
  options.memory = device.host_memory();
  return options;
}

}  // namespace

Stage::Stage(Workplace& place, StageOrder order)
    : place_(place),
      job_(place.job),
      memory_(place.memory),
      order_(std::move(order)),
      pulse_(memory_.pulse(order_.rank())),
      audit_(place_, order_),
      loader_(job_.samples().train(), job_.samples().sampler(), order_.own(), memory_.commit().committed(),
              loader_options(job_, place_.device, memory_.commit().committed())),
      feed_(loader_, place_.device),
      evaluated_(memory_.meetings().evaluated(), memory_, order_),
      begun_(order_.again) {
  if (!order_.again) {
    const bool seeds = order_.restarted && job_.spec().job.determinism == spec::Determinism::d0;
    place_.seeded_step = seeds ? std::optional(memory_.commit().committed()) : std::nullopt;
  }
  carrier_ = open_carrier(place_, order_);
}

Stage::~Stage() {
  if (place_.trace != nullptr) place_.trace->finish();
  if (!goes_on_) place_.exchange.reset();
}

Stage::Left Stage::run() {
  const Left left = train();
  goes_on_ = left == Left::again;
  return left;
}

Stage::Left Stage::train() {
  if (!carrier_) return Left::aborted;
  const device::FinishAtEnd finish(place_.device);
  for (;;) {
    if (!carrier_->carries_on()) return Left::again;
    const Step now = memory_.commit().trained();
    if (place_.outputs != nullptr) return evaluate(now) ? Left::finished : Left::aborted;
    // An evaluation is also due where an earlier stage was aborted between a step and its evaluation.
    if (needs_evaluation(job_, memory_, now) && !evaluate(now)) return Left::aborted;
    if (now.value >= job_.timetable().total_steps()) return Left::finished;
    if (ends_early(job_, memory_, now, place_.host_state(now))) return Left::finished;
    if (memory_.gate().ends_after(now)) return Left::paused;
    if (!traced_step(now)) return Left::aborted;
  }
}

bool Stage::traced_step(Step step) {
  if (place_.trace == nullptr) return this->step(step);
  place_.trace->begin_step(step.next(), order_.worker);
  const bool done = this->step(step);
  if (place_.trace->end_step(step.next())) memory_.clock().note_progress(monotonic_ns());
  return done;
}

bool Stage::step(Step step) {
  place_.model.read_parameters_of(step);
  audit_.begin_step(step);
  if (!carrier_->begin_step(step) || !run_ests(step)) return false;
  if (!finish(step) || !audit_.is_sound()) return false;
  place_.require_memory();
  place_.require_covered();
  return carrier_->commit();
}

// Returns false if the stage was aborted or an audit failed; the next stage repeats the step.
bool Stage::run_ests(Step step) {
  int64_t begin = monotonic_ns();
  const auto ests = static_cast<size_t>(order_.own().size());
  for (size_t arrival = 0; arrival < ests; ++arrival) {
    if (memory_.gate().aborted()) return false;
    if (place_.next_exchange != nullptr) place_.next_exchange->look();
    run_est(arrival, step);
    int64_t waited = 0;
    if (arrival + 1 == ests) {
      const int64_t computed = monotonic_ns();
      if (!audit_.holds()) return false;  // before the update, which may take the place of the parameters
      waited = monotonic_ns() - computed;
      waited += carrier_->pass();
    }
    const int64_t end = monotonic_ns();
    pulse_.computed(end - begin - waited);
    pulse_.count_mini_batch();
    pulse_.beat(comm::Activity::computing, end);
    begin = end;
  }
  return true;
}

// A GPU that trains alone begins the first EST of the next step while the host waits for the results of this step and
// commits the step. In the device's queue the next step's state is complete by then; a worker that leaves before the
// next step leaves no trace of the begun EST. A worker among several does not begin ahead: the worker may wait for
// other workers, and would then measure its mini-batches as too short.
bool Stage::finish(Step step) {
  const auto finish = [this] {
    RECORD_USER_SCOPE("update");
    return carrier_->finish();
  };
  if (!carrier_->begins_ahead()) return finish();
  const int64_t begin = monotonic_ns();
  begin_ahead(step.next());
  const bool done = finish();
  pulse_.computed(monotonic_ns() - begin);
  return done;
}

// Begins the next EST of this worker.
Stage::BegunEst Stage::begin_est(Step step) {
  const int64_t begin = monotonic_ns();
  waiting(pulse_, comm::Activity::reading, [&] {
    feed_.read();
    return true;
  });
  pulse_.waited_for_data(monotonic_ns() - begin);
  const DeviceBatch batch = feed_.next();
  if (!begun_) {
    begun_ = true;
    memory_.gate().note_started(monotonic_ns());
  }
  return {step, begin_pass(place_, batch, step)};
}

void Stage::begin_ahead(Step step) {
  const bool goes_on = step.value < job_.timetable().total_steps() && !job_.timetable().evaluates_after(step) &&
                       !memory_.gate().pause_asked() && !memory_.gate().aborted();
  if (!goes_on || !feed_.look_ahead()) return;
  place_.model.read_parameters_of(step);
  ahead_ = begin_est(step);
  feed_.look_ahead();
}

// Queues all results of the EST's mini-batch on the device; the results are ready when the device has finished.
void Stage::run_est(size_t arrival, Step step) {
  std::optional<BegunEst> est = std::exchange(ahead_, std::nullopt);
  if (!est) est = begin_est(step);
  if (est->step != step) throw Error::make(Fault::bug, "step {} was begun in place of {}", est->step, step);
  const VirtualRank rank = est->pass.rank;
  take_results(est->pass);
  audit_.begin_pass(rank);
  const auto take = [this, arrival](const Gradients& gradients) {
    audit_.take(gradients);
    carrier_->take(arrival, gradients);
  };
  const torch::Tensor loss = end_pass(
      est->pass, {[this, arrival](const torch::Tensor& with_graph) { carrier_->backward(arrival, with_graph); }, take});
  audit_.end_pass(loss);
  est.reset();
  store_streams(rank, step);
  std::byte* new_state = place_.host_state(step.next());
  place_.device.read(loss, [this, new_state, rank](const float* value) {
    *job_.places().ests.last_loss(new_state, rank) = results().put_loss(rank, *value);
    pulse_.beat(monotonic_ns());  // in a thread of the device: this worker may wait for the others meanwhile
  });
  if (rank == VirtualRank(0)) carrier_->keep_buffers();  // every EST's buffers at the next step
  feed_.look_ahead();
}

EstResults Stage::results() { return {job_.manifest(), memory_.ring().pending()}; }

// Before the backward pass: the update, which may be in the hooks of that pass, reads the weights.
void Stage::take_results(const BegunPass& pass) {
  for (size_t i = 0; i < pass.results.size(); ++i)
    place_.device.read(pass.results[i],
                       [this, i, rank = pass.rank](const float* value) { results().put(rank, i, *value); });
}

void Stage::store_streams(VirtualRank rank, Step step) {
  const size_t tensors = job_.places().model.num_parameters() + job_.places().model.num_buffers();
  std::atomic<uint64_t>& digest = memory_.ring().pending().digests[tensors + static_cast<size_t>(rank.value)];
  digest.store(save_streams(place_, step, rank));
}

bool Stage::evaluate(Step step) {
  if (job_.places().averages.are_kept() && job_.spec().ema.evaluate) {
    place_.model.read_averages_of(step);
  } else {
    place_.model.read_parameters_of(step);
  }
  place_.model.load_buffers(step);
  if (!evaluate_share(place_, order_, step)) return false;
  place_.require_memory();
  place_.require_covered();
  return evaluated_.meet([&] {
    if (order_.beyond && !exchange_results(place_, step)) return;
    if (!take_users_metrics(place_, order_, step)) return;
    pulse_.beat(comm::Activity::waiting_for_scribe, monotonic_ns());
    if (publish_evaluation(place_, step)) ring_doorbell(place_);
  });
}

void warm_up(Workplace& place) {
  place.model.read_parameters_of(place.memory.commit().committed());
  place.model.load_buffers(place.memory.commit().committed());
  DryRun{place.job, place.hooks, place.device}.run(place.job.samples().first_batch());
}

}  // namespace estrain::train
