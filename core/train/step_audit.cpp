#include "core/train/step_audit.h"

#include <utility>

#include "core/base/clock.h"
#include "core/checkpoint/state/est_streams.h"
#include "core/data/reading/loader.h"
#include "core/est/generator.h"
#include "kernels/average.h"
#include "kernels/digest.h"
#include "kernels/optimizer.h"

namespace estrain::train {
namespace {

data::Loader loader_of(const Job& job, Step step, VirtualRank rank) {
  data::LoaderOptions options;
  options.prefetch = 1;
  options.seed = static_cast<uint64_t>(job.spec().job.seed);
  options.steps = 1;
  const EstRange one{rank, VirtualRank(rank.value + 1)};
  return data::Loader(*job.data().train, job.sampler(), one, job.sampler().cursor_at(step), options);
}

uint64_t digest_of_parameter(const Job& job, std::byte* state, size_t i) {
  const size_t bytes = job.elements(i) * sizeof(float);
  kernels::OptimizerDigest digest;
  digest.parameter = kernels::digest(job.parameter(state, i), bytes);
  for (size_t k = 0; k < job.num_slots(i); ++k) digest.slots[k] = kernels::digest(job.slot(state, i, k), bytes);
  if (!job.keeps_average()) return digest.combined();
  return kernels::with_average(digest.combined(), kernels::digest(job.average(state, i), bytes));
}

uint64_t digest_of_streams(const Job& job, std::byte* state, VirtualRank rank) {
  const uint64_t cpu = kernels::digest(job.generator(state, rank), est::generator_state_bytes());
  const uint64_t cuda =
      job.has_cuda_streams() ? kernels::digest(job.cuda_generator(state, rank), est::cuda_generator_state_bytes) : 0;
  const uint64_t python = job.interpreter() != nullptr
                              ? kernels::digest(job.python_streams(state, rank), job.interpreter()->stream_bytes())
                              : 0;
  return checkpoint::streams_digest(cpu, cuda, python);
}

// A record has a digest for each parameter with its slots, for each buffer, and for the random streams of each EST.
uint64_t digest_now(const Job& job, std::byte* state, size_t number) {
  if (number < job.parameters().size()) return digest_of_parameter(job, state, number);
  const size_t buffer = number - job.parameters().size();
  if (buffer < job.buffers().size())
    return kernels::digest(job.buffers(state) + job.buffer_offset(buffer), job.buffers()[buffer].nbytes());
  return digest_of_streams(job, state, VirtualRank(static_cast<int64_t>(buffer - job.buffers().size())));
}

audit::Audit::Order order_of(const Workplace& place, const StageOrder& order) {
  std::vector<std::string> kinds = order.kinds;
  kinds.resize(order.workers(), "cpu");
  const spec::JobSpec& spec = place.job.spec();
  return {
      order.worker, {order.ranges, std::move(kinds), spec.job.determinism == spec::Determinism::d2}, spec.audit.every};
}

}  // namespace

StepAudit::StepAudit(Workplace& place, const StageOrder& order)
    : place_(place),
      pulse_(place.memory.pulse(order.rank())),
      compared_(place.memory.meetings().audited(), place.memory, order),
      audit_(*this, place.memory.audits(), order_of(place, order), place.vouched) {}

est::Witness StepAudit::witness_for(uint64_t* row) {
  return est::Witness({place_.hooks, place_.device, place_.job.parameters(), place_.job.buffers()}, row);
}

void StepAudit::begin_pass(VirtualRank rank) {
  uint64_t* row = audit_.row_of(rank);
  if (row == nullptr) return;
  witness_.emplace(witness_for(row));
  witness_->begin();
}

// Otherwise the hooks see them, too (GradientHooks::hand_over).
void StepAudit::take(const Gradients& gradients) {
  if (witness_ && place_.resident) witness_->take(gradients);
}

void StepAudit::end_pass(const torch::Tensor& loss) {
  if (witness_) witness_->end(loss);
  witness_.reset();
}

bool StepAudit::holds() {
  if (audit_.is_under_way()) place_.device.finish();
  return audit_.holds();
}

void StepAudit::compute(Step step, VirtualRank rank, uint64_t* row) {
  pulse_.beat(comm::Activity::computing, monotonic_ns());
  data::Loader loader = loader_of(place_.job, step, rank);
  const data::LoadedBatch batch = loader.next();
  const device::FinishAtEnd finish(place_.device);
  est::Witness witness = witness_for(row);
  witness.begin();
  const torch::Tensor loss = forward(place_, batch, step);
  place_.hooks.backward(loss, [](size_t, const float*) {});
  witness.end(loss);
  place_.device.finish();
  pulse_.beat(comm::Activity::computing, monotonic_ns());
}

// A GPU that keeps the state in its own memory has taken the digests on record itself; nothing is compared there.
std::optional<size_t> StepAudit::find_damage(Step step, size_t first, size_t stride) {
  if (place_.resident) return std::nullopt;
  const std::optional<comm::RecordView> record = place_.memory.ring().find(step);
  if (!record) return std::nullopt;
  std::byte* state = place_.memory.state_of(step);
  const size_t digests = place_.job.manifest().digest_names.size();
  for (size_t i = first; i < digests; i += stride)
    if (digest_now(place_.job, state, i) != record->digests[i].load()) return i;
  return std::nullopt;
}

std::string StepAudit::name_of_result(size_t word) const {
  const size_t parameters = place_.job.parameters().size(), tensors = parameters + place_.job.buffers().size();
  if (word == tensors) return "the loss";
  if (word > tensors) return "the random stream";
  return (word < parameters ? "the gradient of " : "the buffer ") + name_of_state(word);
}

std::string StepAudit::name_of_state(size_t digest) const { return place_.job.manifest().digest_names[digest]; }

}  // namespace estrain::train
