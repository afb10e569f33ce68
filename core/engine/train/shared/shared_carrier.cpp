#include "core/engine/train/shared/shared_carrier.h"

#include <ATen/record_function.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/data/reading/loader.h"
#include "core/engine/train/evaluation/learning_rates.h"
#include "core/state/comm/meetings/bell.h"
#include "core/state/comm/meetings/host_meeting.h"
#include "core/state/comm/memory/commit_word.h"
#include "core/state/comm/records/nonfinite.h"
#include "core/state/comm/records/step_record.h"
#include "kernels/digest.h"

namespace estrain::train {
namespace {

constexpr size_t kElementsBetweenBells = 32 << 10;  // 0.1 ms of a fast network

using comm::Nonfinite;

constexpr size_t kMostSamplesNamed = 32;

Nonfinite ask(Workplace& place, const data::LoadedBatch& batch, Step step) {
  Nonfinite found;
  found.rank = batch.rank().value;
  const device::FinishAtEnd finish(place.device);
  const torch::Tensor loss = forward(place, batch, step);
  place.hooks.backward(loss, [&](size_t parameter, const float* gradient) {
    if (gradient == nullptr || found.where != Nonfinite::Where::nowhere) return;
    const float* end = gradient + place.job.places().model.elements(parameter);
    const float* at = std::find_if_not(gradient, end, [](float value) { return std::isfinite(value); });
    if (at == end) return;
    found.where = Nonfinite::Where::gradient;
    found.tensor = static_cast<int64_t>(parameter);
    found.value = *at;
  });
  place.device.finish();
  found.loss = loss.item<float>();
  if (found.where == Nonfinite::Where::nowhere && !std::isfinite(found.loss)) {
    found.where = Nonfinite::Where::loss;
    found.value = found.loss;
  }
  return found;
}

Nonfinite find_est(Workplace& place, Step step, comm::WorkerPulse& pulse) {
  data::Loader loader = place.job.samples().loader_of_step(step, place.job.places().ests.all());
  for (int64_t left = place.job.spec().job.ests; left > 0 && !place.memory.gate().aborted(); --left) {
    pulse.beat(comm::Activity::computing, monotonic_ns());
    const data::LoadedBatch batch = loader.next();
    const Nonfinite found = ask(place, batch, step);
    if (found.where != Nonfinite::Where::nowhere) return found;
  }
  return {};
}

Nonfinite find_in_update(const Updater& updater, Nonfinite::Where suspect) {
  Nonfinite found;
  if (suspect == Nonfinite::Where::update) found = updater.first_nonfinite_result();
  if (suspect == Nonfinite::Where::weight) found.where = suspect;
  if (suspect == Nonfinite::Where::norm) found = {.where = suspect, .value = updater.total_norm()};
  if (found.where == Nonfinite::Where::nowhere) found.where = Nonfinite::Where::unknown;
  return found;
}

// "3, 17, 4"
std::string samples_of(const TrainingJob& job, Step step, VirtualRank rank) {
  std::vector<int64_t> samples = job.samples().sampler().indices(step, rank);
  const bool more = samples.size() > kMostSamplesNamed;
  if (more) samples.resize(kMostSamplesNamed);
  return fmt::format("{}{}", fmt::join(samples, ", "), more ? ", …" : "");
}

// Finds the EST and the tensor behind a step whose sums are not finite. A sum does not tell which EST gave the NaN, and
// checking every gradient of every EST would cost each step a pass over memory. But a step is deterministic. So one
// worker runs the mini-batches of all ESTs once more, in the order of the virtual ranks, and checks each mini-batch.
//
// Searches the step after the committed `step`; the model must read the parameters of `step`. Returns the first EST
// with a gradient that is not finite, or else with a loss that is not finite. If all ESTs are finite, returns the value
// computed by the update from finite gradients: the norm, or a result. Leaves no trace in the state. Beats `pulse`
// before every mini-batch. Ignore the result if the stage is aborted.
Nonfinite find_nonfinite(Workplace& place, const Updater& updater, Step step, comm::WorkerPulse& pulse) {
  const Nonfinite::Where suspect = place.memory.ring().pending().head->suspect;
  const Nonfinite found = find_est(place, step, pulse);
  return found.where != Nonfinite::Where::nowhere ? found : find_in_update(updater, suspect);
}

// Returns the error that ends the job: Fault::infeasible, "step t: the gradient of … is NaN (virtual rank r; …)", with
// the advice to look at the samples of the mini-batch.
Error nonfinite_error(const TrainingJob& job, Step step, const Nonfinite& found) {
  std::string advice =
      "lower the learning rate, warm it up or clip gradients (train.clip_grad_norm), or let such steps pass without an "
      "update: train.nonfinite = \"skip\"";
  if (found.rank >= 0) {
    advice += fmt::format("\nsamples of virtual rank {} in that step, counted from 0: {}", found.rank,
                          samples_of(job, step, VirtualRank(found.rank)));
  }
  return Error::make(Fault::infeasible, "step {}: {}", step.next(), in_words(found, job.manifest().digest_names))
      .advise(advice)
      .caused_by("model_diverged");
}

}  // namespace

FoldProgress::FoldProgress(const ModelPlaces& places, comm::JobMemory& memory, WorkerRank worker, int bell)
    : places_(places), progress_(memory.sums()), worker_(worker), bell_(bell), folded_(places.num_parameters()) {}

void FoldProgress::begin_step() {
  std::fill(folded_.begin(), folded_.end(), false);
  begin_ = folded_.size();
  unsaid_ = 0;
}

void FoldProgress::note(size_t parameter) {
  folded_[parameter] = true;
  const size_t before = begin_;
  for (; begin_ > 0 && folded_[begin_ - 1]; --begin_) unsaid_ += places_.elements(begin_ - 1);
  if (begin_ == before) return;
  progress_.note_folded(worker_, static_cast<uint32_t>(folded_.size() - begin_));
  if (unsaid_ < kElementsBetweenBells) return;
  unsaid_ = 0;
  comm::ring(bell_);
}

SharedCarrier::SharedCarrier(Workplace& place, const StageOrder& order, bool stands_in,
                             std::unique_ptr<DeviceSums> on_devices)
    : place_(place),
      own_(order.own()),
      stands_in_(stands_in),
      has_other_hosts_(order.beyond.has_value()),
      marks_(place.job.places().model, place.memory, order),
      gradients_(place.job.places().model, place.job.gradient_sum(), place.memory, order, marks_),
      squares_(place.job.spec(), place.memory.pulse(order.rank())),
      on_devices_(std::move(on_devices)),
      updater_(place.job, place.memory, gradients_, squares_, marks_, order),
      commit_(place, order),
      pulse_(place.memory.pulse(order.rank())),
      gathered_(place.memory.meetings().gathered(), place.memory, order),
      summed_(place.memory.meetings().summed(), place.memory, order),
      finished_(place.memory.meetings().finished(), place.memory, order) {
  if (has_other_hosts_ && !on_devices_)
    folded_.emplace(place.job.places().model, place.memory, order.worker, place.courier);
  if (has_other_hosts_ && order.beyond->factors) factors_.emplace(place, order, !squares_.measures(), marks_);
  // Couriers write to partial sums, too, and a measurement reads whole gradients.
  const bool needs_whole_gradients = has_other_hosts_ || squares_.measures();
  if (!needs_whole_gradients && place.device.torch_device().is_cpu() && !place.job.spec().model.is_python())
    tables_.emplace(place.job.network().parameters());
}

bool SharedCarrier::carries_on() const { return !stands_in_ || place_.memory.commit().looks_closely(); }

bool SharedCarrier::begin_step(Step step) {
  step_ = step;
  if (!wait_writable()) return false;
  updater_.begin_step(step);
  squares_.begin_step();
  if (folded_) folded_->begin_step();
  if (factors_) factors_->begin_step(step);
  begin_marks();
  if (on_devices_) on_devices_->begin_step();
  return true;
}

// A sum of couriers may change any row. Of a gradient that goes as factors, sum_rows() marks the rows, or the fold of
// this host's whole gradients has marked all.
void SharedCarrier::begin_marks() {
  marks_.begin_step(step_);
  if (!has_other_hosts_) return;
  for (size_t i = 0; i < place_.job.places().model.num_parameters(); ++i) {
    if (!factors_ || !factors_->has_chosen(i)) marks_.mark_all(i);
  }
}

bool SharedCarrier::wait_writable() {
  comm::StateHold hold = place_.memory.hold();
  const Step next = step_.next();
  if (hold.is_writable(next)) return true;
  if (!waiting(pulse_, comm::Activity::waiting_for_scribe, [&] { return hold.wait_writable(next); })) return false;
  place_.memory.clock().note_progress(monotonic_ns());
  return true;
}

est::GradientSink SharedCarrier::sink(size_t arrival) {
  est::GradientSink folds = folding_sink(arrival);
  if (factors_) {
    folds = [this, arrival, folds = std::move(folds)](size_t parameter, const float* gradient) {
      if (factors_->makes_offers(arrival)) factors_->offer(parameter, gradient);
      if (factors_->reads_factors(parameter)) return note_folded(arrival, parameter);
      folds(parameter, gradient);
    };
  }
  if (!squares_.measures()) return folds;
  return [this, folds = std::move(folds)](size_t parameter, const float* gradient) {
    if (gradient != nullptr) squares_.add_est(gradient, place_.job.places().model.elements(parameter));
    folds(parameter, gradient);
  };
}

est::GradientSink SharedCarrier::folding_sink(size_t arrival) {
  const bool is_last = arrival + 1 == static_cast<size_t>(own_.size());
  if (is_last && updater_.in_hooks()) {
    return [this, arrival](size_t parameter, const float* gradient) {
      if (!gradients_.has_rows(arrival, parameter)) return updater_.update_in_hook(parameter, gradient);
      gradients_.fold(arrival, parameter, gradient);
      updater_.update_folded(parameter);
    };
  }
  return [this, arrival](size_t parameter, const float* gradient) {
    gradients_.fold(arrival, parameter, gradient);
    note_folded(arrival, parameter);
  };
}

// Nothing more of this worker's comes to the parameter's sum after the last EST.
void SharedCarrier::note_folded(size_t arrival, size_t parameter) {
  if (folded_ && arrival + 1 == static_cast<size_t>(own_.size())) folded_->note(parameter);
}

void SharedCarrier::fold_table(size_t arrival, size_t parameter, const GradientFactors& gradient) {
  place_.hooks.note_taken(parameter);
  gradients_.fold_table(arrival, parameter, gradient, place_.job.network().parameters()[parameter].sizes());
  if (arrival + 1 < static_cast<size_t>(own_.size())) return;
  if (updater_.in_hooks()) updater_.update_folded(parameter);
}

// Has the pass hand over factors of gradients where the sums need them. The pass computes no gradient of which the sums
// need the factors alone.
FactorWatch::Cuts SharedCarrier::begin_pass(size_t arrival, const torch::Tensor& loss) {
  if (factors_) {
    return factors_->watch(arrival, loss, [this, arrival](size_t parameter) {
      place_.hooks.note_taken(parameter);
      note_folded(arrival, parameter);
    });
  }
  if (!tables_ || tables_->is_idle() || place_.hooks.has_witness()) return {};
  return tables_->begin_pass(loss, [this, arrival](size_t parameter, const GradientFactors& gradient) {
    fold_table(arrival, parameter, gradient);
  });
}

void SharedCarrier::backward(size_t arrival, const torch::Tensor& loss) {
  if (!on_devices_) {
    const FactorWatch::Cuts cuts = begin_pass(arrival, loss);
    place_.hooks.backward(loss, sink(arrival));
    if (factors_) factors_->end_pass(arrival);
    return;
  }
  place_.hooks.backward_on_device(loss, [this, arrival](size_t parameter, const torch::Tensor& gradient) {
    on_devices_->fold(arrival, parameter, gradient);
  });
  on_devices_->flush();
}

void SharedCarrier::take(size_t arrival, const std::vector<torch::Tensor>& gradients) {
  if (!on_devices_) return place_.hooks.hand_over(gradients, sink(arrival));
  for (size_t i = 0; i < gradients.size(); ++i) on_devices_->fold(arrival, i, gradients[i]);
  on_devices_->flush();
}

void SharedCarrier::keep_buffers() {
  std::byte* state = place_.host_state(step_.next());
  place_.model.store_buffers(state, [this, state] { record_buffers(state); });
}

void SharedCarrier::record_buffers(std::byte* state) {
  const ModelPlaces& model = place_.job.places().model;
  comm::RecordView record = place_.memory.ring().pending();
  for (size_t i = 0; i < model.num_buffers(); ++i)
    record.digests[model.num_parameters() + i].store(kernels::digest(model.buffer(state, i), model.buffer_bytes(i)));
}

int64_t SharedCarrier::pass() {
  if (on_devices_) return on_devices_->pass();
  place_.device.finish();
  return 0;
}

bool SharedCarrier::finish() {
  if (updater_.in_hooks()) return true;
  if (on_devices_ && !on_devices_->are_whole()) return false;
  return gathered_.meet([this] { ask_for_sums(); }) && wait_weights() && (!factors_ || factors_->sum_all()) &&
         updater_.update_all({[this](size_t begin) { return wait_summed(begin); }, [this] { return summed_.meet(); }});
}

// The answer comes when all sums of the other hosts have arrived; each sum may be used earlier.
void SharedCarrier::ask_for_sums() {
  if (has_other_hosts_) place_.memory.hosts().post(comm::HostAsk::sums, step_, place_.courier);
}

// Waits until the sums over all hosts are complete from float `begin` of the gradients on. Sums on devices are complete
// before the workers meet. Returns false on abort.
bool SharedCarrier::wait_summed(size_t begin) {
  comm::SumProgress sums = place_.memory.sums();
  if (!has_other_hosts_ || on_devices_ || sums.is_summed(begin)) return true;
  return waiting(pulse_, comm::Activity::meeting, [&] { return sums.wait_summed(begin); });
}

// The update by weight needs the weights of all hosts' ESTs, which come with the answer. Returns false on abort.
bool SharedCarrier::wait_weights() {
  if (!has_other_hosts_ || !place_.job.manifest().weighs) return true;
  return waiting(pulse_, comm::Activity::meeting, [&] { return place_.memory.hosts().wait_answer(); });
}

// Returns whether the step is whole on all hosts. False on abort.
bool SharedCarrier::agree_with_other_hosts() {
  return !has_other_hosts_ || place_.memory.hosts().ask(comm::HostAsk::commit, step_, place_.courier);
}

bool SharedCarrier::commit() {
  if (on_devices_) squares_.add(on_devices_->est_squares(), 0);
  squares_.end_step();
  return finished_.meet([this] { commit_for_all(); }) && !was_refused();
}

void SharedCarrier::commit_for_all() {
  if (has_other_hosts_ && !place_.memory.hosts().wait_answer()) return;
  comm::CommitWord word = place_.memory.commit();
  const Step next = step_.next();
  if (!commit_.is_finite() && !pass_over_nonfinite()) return;
  const double lr = commit_.complete(step_);
  keep_schedule(place_.job, place_.memory, step_, place_.host_state(step_), place_.host_state(next));
  word.note_whole(next, lr);  // before the record; repair() may commit a step with a record
  if (!agree_with_other_hosts() || !commit_.publish()) return;
  word.commit(next);
  commit_.settle(next);
}

// The last worker to arrive calls this function instead of the step's update. Returns false if no worker may commit.
bool SharedCarrier::pass_over_nonfinite() {
  comm::RecordHead& head = *place_.memory.ring().pending().head;
  const comm::Nonfinite found = find_nonfinite(place_, updater_, step_, pulse_);
  if (place_.memory.gate().aborted()) return false;
  head.left_out = found;
  if (place_.job.spec().train.nonfinite == spec::NonfinitePolicy::stop) return false;
  leave_out();
  return true;
}

// Returns, after the meeting, whether no worker commits the step. The worker of the non-finite EST throws. A step with
// a left-out update is never refused: without a commit the stage was aborted first, and the step is done again.
bool SharedCarrier::was_refused() {
  if (place_.job.spec().train.nonfinite != spec::NonfinitePolicy::stop) return false;
  if (place_.memory.commit().trained() != step_) return false;
  const comm::Nonfinite found = place_.memory.ring().pending().head->left_out;
  if (found.where == comm::Nonfinite::Where::nowhere) return false;
  const VirtualRank rank(std::max<int64_t>(found.rank, 0));
  if (own_.contains(rank)) throw nonfinite_error(place_.job, step_, found);
  return true;
}

// Parameters, slots, update counts and buffers of the new state become equal to the old state's, digests included.
void SharedCarrier::leave_out() {
  std::byte* old_state = place_.host_state(step_);
  std::byte* new_state = place_.host_state(step_.next());
  updater_.leave_out();
  const ModelPlaces& model = place_.job.places().model;
  std::memcpy(model.buffers(new_state), model.buffers(old_state), model.buffers_bytes());
  record_buffers(new_state);
}

}  // namespace estrain::train
