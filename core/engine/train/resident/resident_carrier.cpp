#include "core/engine/train/resident/resident_carrier.h"

#include <cmath>
#include <cstring>

#include "core/base/clock.h"
#include "core/engine/train/evaluation/learning_rates.h"
#include "core/state/comm/records/step_record.h"
#include "core/state/comm/stage_control.h"
#include "kernels/execution.h"

namespace estrain::train {
namespace {

constexpr int64_t kStepsInSharedMemory = 16;  // from a step with a non-finite value on

}  // namespace

ResidentOptimizer::ResidentOptimizer(Workplace& place)
    : place_(place), places_(place.job.places()), state_(*place.resident) {
  const size_t parameters = places_.model.num_parameters();
  const size_t bytes = parameters * sizeof(kernels::UpdateDigest) +
                       (places_.model.num_buffers() + 1) * sizeof(uint64_t) + parameters * sizeof(float);
  results_ = new_floats(bytes / sizeof(float), place.device);
  norms_ = new_floats(parameters + 1, place.device);
}

kernels::UpdateDigest* ResidentOptimizer::digest_of_parameter(size_t i) const {
  return static_cast<kernels::UpdateDigest*>(results_.mutable_data_ptr()) + i;
}
unsigned long long* ResidentOptimizer::digest_of_buffer(size_t i) const {
  return reinterpret_cast<unsigned long long*>(digest_of_parameter(places_.model.num_parameters())) + i;
}
float* ResidentOptimizer::norm() const {
  return reinterpret_cast<float*>(digest_of_buffer(places_.model.num_buffers()));
}
float* ResidentOptimizer::reached() const { return norm() + sizeof(uint64_t) / sizeof(float); }

void ResidentOptimizer::begin_step(Step step) {
  step_ = step;
  rates_ = learning_rates(place_.job, place_.memory, step, state_.host(step));
  launches_.clear();
  results_.zero_();
  if (place_.job.spec().train.clip_grad_norm > 0) norms_.fill_(-1);
}

void ResidentOptimizer::update(const ParameterPiece& piece, const float* gradient) {
  if (piece.size == 0) return;
  if (gradient == nullptr) return keep(piece);
  launch_of(piece.parameter).pieces.push_back(update_of(piece, gradient));
}

void ResidentOptimizer::update_apart(const ParameterPiece& piece, float* gradient) {
  kernels::UpdatePiece update = update_of(piece, gradient);
  update.new_parameter = gradient;
  update.reached = reached() + piece.parameter;
  launch_of(piece.parameter).pieces.push_back(update);
}

kernels::UpdatePiece ResidentOptimizer::update_of(const ParameterPiece& piece, const float* gradient) const {
  kernels::UpdatePiece update = {.n = piece.size, .first_word = piece.begin, .gradient = gradient};
  update.parameter = update.new_parameter = state_.parameter(piece);
  for (size_t k = 0; k < places_.optimizer.num_slots(piece.parameter); ++k)
    update.slots[k] = update.new_slots[k] = state_.slot(piece, k);
  update.digest = digest_of_parameter(piece.parameter);
  return update;
}

ResidentOptimizer::Launch& ResidentOptimizer::launch_of(size_t parameter) {
  const size_t group = place_.job.optimizer().groups().group_of[parameter];
  const int64_t updates_before = *places_.optimizer.updates(state_.host(step_), parameter);
  for (Launch& launch : launches_) {
    if (launch.group == group && launch.updates_before == updates_before) return launch;
  }
  return launches_.emplace_back(Launch{group, updates_before, {}});
}

void ResidentOptimizer::flush(const float* factor) {
  state_.require_awaited();
  for (Launch& launch : launches_) {
    place_.job.optimizer().update_on_device(launch.group, launch.updates_before, rates_[launch.group], launch.pieces,
                                            factor, *place_.device.queue());
    launch.pieces.clear();
  }
}

void ResidentOptimizer::update_all_of(size_t parameter, const float* gradient) {
  count(parameter, gradient != nullptr);
  update({parameter, 0, places_.model.elements(parameter)}, gradient);
}

void ResidentOptimizer::count(size_t parameter, bool reached) {
  places_.optimizer.count_update(state_.host(step_), state_.host(step_.next()), parameter, reached);
}

void ResidentOptimizer::keep(const ParameterPiece& piece) {
  const size_t i = piece.parameter;
  kernels::UpdateDigest* const digest = digest_of_parameter(i);
  std::vector<kernels::DigestPiece> kept = {{state_.parameter(piece), piece.size, piece.begin, &digest->parameter}};
  for (size_t k = 0; k < places_.optimizer.num_slots(i); ++k)
    kept.push_back({state_.slot(piece, k), piece.size, piece.begin, &digest->slots[k]});
  place_.device.queue()->updates->digest(kept, *place_.device.queue());
}

void ResidentOptimizer::take_norms(std::span<const Gradient> gradients) {
  std::vector<kernels::NormPiece> pieces;
  for (const Gradient& gradient : gradients) {
    if (const size_t elements = places_.model.elements(gradient.parameter); elements > 0)
      pieces.push_back({gradient.values, elements, norms_.mutable_data_ptr<float>() + gradient.parameter});
  }
  place_.device.queue()->updates->norms(pieces, *place_.device.queue());
}

const float* ResidentOptimizer::clip_factor(const float* are_reached) {
  const kernels::DeviceQueue& queue = *place_.device.queue();
  const size_t parameters = places_.model.num_parameters();
  float* const norms = norms_.mutable_data_ptr<float>();
  float* const factor = norms + parameters;
  const kernels::NormPiece all = {norms, parameters, norm()};
  queue.updates->compact_norms(norms, are_reached, parameters, queue);
  queue.updates->norms({&all, 1}, queue);
  queue.updates->clip_factor(factor, norm(), static_cast<float>(place_.job.spec().train.clip_grad_norm), queue);
  return factor;
}

void ResidentOptimizer::digest_buffers() {
  const auto* const values = static_cast<const std::byte*>(state_.buffers(step_.next()).const_data_ptr());
  std::vector<kernels::DigestPiece> buffers;
  for (size_t i = 0; i < places_.model.num_buffers(); ++i)
    buffers.push_back(
        {values + places_.model.buffer_offset(i), places_.model.buffer_bytes(i) / 4, 0, digest_of_buffer(i)});
  place_.device.queue()->updates->digest(buffers, *place_.device.queue());
}

void ResidentOptimizer::read_results(bool counts) {
  place_.device.read(results_,
                     [this, counts](const float* found) { record(reinterpret_cast<const std::byte*>(found), counts); });
}

void ResidentOptimizer::record(const std::byte* results, bool counts) {
  const size_t parameters = places_.model.num_parameters(), buffers = places_.model.num_buffers();
  comm::RecordView record = place_.memory.ring().pending();
  bool finite = true;
  for (size_t i = 0; i < parameters; ++i, results += sizeof(kernels::UpdateDigest)) {
    kernels::UpdateDigest found;
    std::memcpy(&found, results, sizeof found);
    finite &= found.not_finite == 0;
    const kernels::OptimizerDigest digest{found.parameter, {found.slots[0], found.slots[1]}, found.not_finite == 0};
    record.digests[i].fetch_add(digest.combined(), std::memory_order_relaxed);
  }
  for (size_t i = 0; i < buffers; ++i, results += sizeof(uint64_t)) {
    uint64_t digest = 0;
    std::memcpy(&digest, results, sizeof digest);
    record.digests[parameters + i].fetch_add(digest, std::memory_order_relaxed);
  }
  float norm = 0;
  std::memcpy(&norm, results, sizeof norm);
  const auto* const are_reached = reinterpret_cast<const float*>(results + sizeof(uint64_t));
  for (size_t i = 0; i < parameters && counts; ++i) count(i, are_reached[i] != 0);
  if (!std::isfinite(norm)) {
    comm::mark_suspect(*record.head, comm::Nonfinite::Where::norm);
  } else if (!finite) {
    comm::mark_suspect(*record.head, comm::Nonfinite::Where::update);
  }
}

ResidentSaving::ResidentSaving(Workplace& place, const StageOrder& order)
    : place_(place),
      pulse_(place.memory.pulse(order.rank())),
      commit_(place, order),
      saved_(place.memory.meetings().saved(), place.memory, order),
      saved_ns_(monotonic_ns()) {}

void ResidentSaving::settle_or_save(Step step) {
  if (!decide(step)) commit_.settle(step);
}

// Saves at once where a process reads the state after this step, else now and then, beside the next step. The committed
// copy is never written, so of two steps in a row only one can be saved: a pause may be answered a step later. The step
// before a step with a due save is saved first, where its save frees the due step's copy. Returns true if all workers
// wait for the save, and then settles the step.
bool ResidentSaving::decide(Step step) {
  const ResidentState& state = *place_.resident;
  const bool now = place_.memory.gate().pause_asked() || must_be_saved(step);
  const bool clears = must_be_saved(step.next()) && !state.can_save(step.next());
  const bool due = std::chrono::nanoseconds(monotonic_ns() - saved_ns_) > time_between_saves(state.last_save());
  if (!(now || clears || due) || !state.can_save(step)) return false;
  place_.memory.save_request().ask(step, now);
  return now;
}

bool ResidentSaving::must_be_saved(Step step) const {
  const TrainingJob& job = place_.job;
  const bool may_be_last = step.value == job.timetable().total_steps() ||
                           (job.places().metrics.has_early_stop() && job.timetable().evaluates_after(step));
  return job.timetable().saves_after(step) || may_be_last;
}

// Returns the learning rate of the update from the step before `step` to `step`.
double ResidentSaving::lr_before(Step step) {
  return place_.job.places().metrics.has_plateau() ? place_.job.places().metrics.first_rate(place_.host_state(step))
                                                   : place_.job.schedules().rates_at(Step(step.value - 1))[0];
}

bool ResidentSaving::wants(Step step) const { return place_.memory.save_request().wants(step); }

bool ResidentSaving::save(Step step, const SavedPart& part) {
  comm::StateHold hold = place_.memory.hold();
  saved_ns_ = monotonic_ns();
  if (!hold.is_writable(step) &&
      !waiting(pulse_, comm::Activity::waiting_for_scribe, [&] { return hold.wait_writable(step); }))
    return false;
  if (!place_.resident->save(step, lr_before(step), part)) return false;
  if (!place_.memory.save_request().waits()) return true;
  place_.device.finish();
  return saved_.meet([&] { commit_.settle(step); });
}

ResidentCarrier::ResidentCarrier(Workplace& place, const StageOrder& order)
    : place_(place),
      job_(place.job),
      clips_(job_.spec().train.clip_grad_norm > 0),
      sums_(job_.places().model, job_.gradient_sum(), place.device, order.own()),
      device_squares_(place, sums_.ests()),
      optimizer_(place),
      squares_(job_.spec(), place.memory.pulse(order.rank())),
      commit_(place, order),
      finished_(place.memory.meetings().finished(), place.memory, order),
      saving_(place, order) {}

bool ResidentCarrier::carries_on() const { return !place_.memory.commit().looks_closely(); }

bool ResidentCarrier::begin_step(Step step) {
  step_ = step;
  sums_.forget();
  device_squares_.begin_step();
  squares_.begin_step();
  optimizer_.begin_step(step);
  return true;
}

void ResidentCarrier::backward(size_t arrival, const torch::Tensor& loss) {
  place_.hooks.backward_on_device(loss, [this, arrival](size_t parameter, const torch::Tensor& gradient) {
    take_one(arrival, parameter, gradient);
  });
  flush();
}

void ResidentCarrier::take(size_t arrival, const std::vector<torch::Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) take_one(arrival, i, gradients[i]);
  flush();
}

void ResidentCarrier::take_one(size_t arrival, size_t parameter, const torch::Tensor& gradient) {
  device_squares_.add_est(arrival, parameter, gradient);
  fold(arrival, parameter, gradient);
}

void ResidentCarrier::flush() {
  device_squares_.flush();
  sums_.flush();
}

void ResidentCarrier::keep_buffers() {
  place_.model.put_buffers(*place_.resident, step_.next());
  optimizer_.digest_buffers();
}

bool ResidentCarrier::commit() {
  const Step next = step_.next();
  squares_.add(device_squares_.of_ests(), device_squares_.of_mean());
  squares_.end_step();
  keep_schedule(job_, place_.memory, step_, place_.host_state(step_), place_.host_state(next));
  return finished_.meet([this] { commit_for_all(); }) && (!saving_.wants(next) || saving_.save(next, saved_part()));
}

void ResidentCarrier::commit_for_all() {
  comm::JobMemory& memory = place_.memory;
  if (!commit_.is_finite()) {
    memory.commit().look_closely_until(Step(step_.value + kStepsInSharedMemory));
    comm::StageControl(memory).repair();
    return;
  }
  commit_.complete(step_);
  if (!commit_.publish()) return;
  memory.commit().note_trained(step_.next());
  saving_.settle_or_save(step_.next());
}

}  // namespace estrain::train
