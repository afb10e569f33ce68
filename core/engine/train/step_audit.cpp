#include "core/engine/train/step_audit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/data/reading/loader.h"
#include "core/engine/est/generator.h"
#include "core/state/checkpoint/state/est_streams.h"
#include "kernels/average.h"
#include "kernels/digest.h"
#include "kernels/optimizer.h"

namespace estrain::train {
namespace {

// The digests of an absent and of a non-finite tensor. Both differ from the digest of zeros.
constexpr uint64_t kAbsent = 0x9E3779B97F4A7C15;
constexpr uint64_t kNotFinite = 0xC2B2AE3D27D4EB4F;

uint64_t digest_of(const float* values, size_t elements) {
  if (!std::all_of(values, values + elements, [](float value) { return std::isfinite(value); })) return kNotFinite;
  return kernels::digest(values, elements * sizeof(float));
}

// A buffer may be of any type. Its size is a multiple of 4 bytes, or the digest pads the buffer.
uint64_t digest_of(const torch::Tensor& buffer) {
  const torch::Tensor host = buffer.contiguous().cpu();
  if (host.scalar_type() == torch::kFloat)
    return digest_of(host.const_data_ptr<float>(), static_cast<size_t>(host.numel()));
  return kernels::digest(host.const_data_ptr(), host.nbytes());
}

uint64_t digest_of_random_stream() {
  std::vector<std::byte> stream(est::generator_state_bytes());
  est::switch_generator_out(stream.data());
  return kernels::digest(stream.data(), stream.size());
}

uint64_t digest_of_parameter(const StatePlaces& places, std::byte* state, size_t i) {
  const uint64_t digest = places.digest_of_parameter(state, i);
  if (!places.averages.are_kept()) return digest;
  const size_t bytes = places.model.elements(i) * sizeof(float);
  return kernels::with_average(digest, kernels::digest(places.averages.average(state, i), bytes));
}

uint64_t digest_of_streams(const EstPlaces& places, std::byte* state, VirtualRank rank) {
  const uint64_t cpu = kernels::digest(places.generator(state, rank), est::generator_state_bytes());
  const uint64_t cuda = places.has_cuda_streams()
                            ? kernels::digest(places.cuda_generator(state, rank), est::cuda_generator_state_bytes)
                            : 0;
  const size_t python_bytes = places.python_bytes();
  const uint64_t python = python_bytes > 0 ? kernels::digest(places.python_streams(state, rank), python_bytes) : 0;
  return checkpoint::streams_digest(cpu, cuda, python);
}

// A record has a digest for each parameter with its slots, for each buffer, and for the random streams of each EST.
uint64_t digest_now(const StatePlaces& places, std::byte* state, size_t number) {
  const ModelPlaces& model = places.model;
  if (number < model.num_parameters()) return digest_of_parameter(places, state, number);
  const size_t buffer = number - model.num_parameters();
  if (buffer < model.num_buffers()) return kernels::digest(model.buffer(state, buffer), model.buffer_bytes(buffer));
  return digest_of_streams(places.ests, state, VirtualRank(static_cast<int64_t>(buffer - model.num_buffers())));
}

audit::Audit::Order order_of(const Workplace& place, const StageOrder& order) {
  std::vector<std::string> kinds = order.kinds;
  kinds.resize(order.workers(), "cpu");
  const spec::JobSpec& spec = place.job.spec();
  return {
      order.worker, {order.ranges, std::move(kinds), spec.job.determinism == spec::Determinism::d2}, spec.audit.every};
}

}  // namespace

void Witness::note(size_t parameter, const float* gradient) const {
  const auto elements = static_cast<size_t>(model_.parameters[parameter].numel());
  row_[parameter] = gradient == nullptr ? kAbsent : digest_of(gradient, elements);
}

void Witness::begin() {
  model_.hooks.show_to([self = *this](size_t parameter, const float* gradient) { self.note(parameter, gradient); });
}

void Witness::take(const std::vector<torch::Tensor>& gradients) { model_.hooks.show(gradients); }

void Witness::end(const torch::Tensor& loss) {
  model_.hooks.show_to(nullptr);
  uint64_t* at = std::transform(model_.buffers.begin(), model_.buffers.end(), row_ + model_.parameters.size(),
                                [](const torch::Tensor& buffer) { return digest_of(buffer); });
  model_.device.read(loss.detach(), [at](const float* value) { *at = digest_of(value, 1); });
  at[1] = digest_of_random_stream();
}

StepAudit::StepAudit(Workplace& place, const StageOrder& order)
    : place_(place),
      pulse_(place.memory.pulse(order.rank())),
      compared_(place.memory.meetings().audited(), place.memory, order),
      audit_(*this, place.memory.audits(), order_of(place, order), place.vouched) {}

Witness StepAudit::witness_for(uint64_t* row) {
  const Network& network = place_.job.network();
  return Witness({place_.hooks, place_.device, network.parameters(), network.buffers()}, row);
}

void StepAudit::begin_step(Step step) {
  step_ = step;
  audit_.begin_step(step);
}

void StepAudit::begin_pass(VirtualRank rank) {
  uint64_t* row = audit_.row_of(rank);
  if (row == nullptr) return;
  if (lacks_streams()) show_streams(rank);
  witness_.emplace(witness_for(row));
  witness_->begin();
}

// Without a resident state, the hooks see the gradients of a replayed pass, too (GradientHooks::hand_over).
void StepAudit::take(const Gradients& gradients) {
  if (witness_ && place_.resident) witness_->take(gradients);
}

void StepAudit::end_pass(const torch::Tensor& loss) {
  if (witness_) witness_->end(loss);
  witness_.reset();
}

bool StepAudit::holds() {
  if (!audit_.is_under_way()) return true;
  finish_device();
  return (!lacks_streams() || compared_.meet()) && audit_.holds();  // the streams are there after the meeting
}

// Several workers with a resident state have the streams of their own ESTs only.
bool StepAudit::lacks_streams() const { return place_.resident && place_.exchange; }

void StepAudit::show_streams(VirtualRank rank) {
  const EstPlaces& ests = place_.job.places().ests;
  std::byte* const state = place_.host_state(step_);
  std::byte* const shown = place_.memory.audits().streams();
  std::memcpy(shown, ests.generator(state, rank), est::generator_state_bytes());
  if (ests.has_cuda_streams())
    std::memcpy(shown + est::generator_state_bytes(), ests.cuda_generator(state, rank),
                est::cuda_generator_state_bytes);
}

void StepAudit::take_streams(VirtualRank rank) {
  const EstPlaces& ests = place_.job.places().ests;
  std::byte* const state = place_.host_state(step_);
  const std::byte* const shown = place_.memory.audits().streams();
  std::memcpy(ests.generator(state, rank), shown, est::generator_state_bytes());
  if (ests.has_cuda_streams())
    std::memcpy(ests.cuda_generator(state, rank), shown + est::generator_state_bytes(),
                est::cuda_generator_state_bytes);
}

// The device's work may wait for the sums of other workers: the worker does not count as hanging meanwhile.
void StepAudit::finish_device() {
  if (!place_.exchange) return place_.device.finish();
  waiting(pulse_, comm::Activity::meeting, [this] {
    place_.device.finish();
    return true;
  });
}

void StepAudit::compute(Step step, VirtualRank rank, uint64_t* row) {
  pulse_.beat(comm::Activity::computing, monotonic_ns());
  if (lacks_streams()) take_streams(rank);
  data::Loader loader = place_.job.samples().loader_of_step(step, {rank, VirtualRank(rank.value + 1)});
  const data::LoadedBatch batch = loader.next();
  const device::FinishAtEnd finish(place_.device);
  Witness witness = witness_for(row);
  witness.begin();
  const torch::Tensor loss = forward(place_, batch, step);
  place_.hooks.backward(loss, [](size_t, const float*) {});
  witness.end(loss);
  place_.device.finish();
  pulse_.beat(comm::Activity::computing, monotonic_ns());
}

// A GPU that keeps the state in its own memory has taken the digests on record itself, so nothing is compared.
std::optional<size_t> StepAudit::find_damage(Step step, size_t first, size_t stride) {
  if (place_.resident) return std::nullopt;
  const std::optional<comm::RecordView> record = place_.memory.ring().find(step);
  if (!record) return std::nullopt;
  std::byte* state = place_.memory.state_of(step);
  const size_t digests = place_.job.manifest().digest_names.size();
  for (size_t i = first; i < digests; i += stride)
    if (digest_now(place_.job.places(), state, i) != record->digests[i].load()) return i;
  return std::nullopt;
}

std::string StepAudit::name_of_result(size_t word) const {
  const ModelPlaces& model = place_.job.places().model;
  const size_t parameters = model.num_parameters(), tensors = parameters + model.num_buffers();
  if (word == tensors) return "the loss";
  if (word > tensors) return "the random stream";
  return (word < parameters ? "the gradient of " : "the buffer ") + name_of_state(word);
}

std::string StepAudit::name_of_state(size_t digest) const { return place_.job.manifest().digest_names[digest]; }

}  // namespace estrain::train
