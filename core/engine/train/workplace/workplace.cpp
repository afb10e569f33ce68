#include "core/engine/train/workplace/workplace.h"

#include <ATen/record_function.h>
#include <fmt/format.h>

#include <cstring>

#include "core/base/error.h"
#include "core/engine/est/generator.h"
#include "core/engine/operators/random_stream.h"
#include "core/state/checkpoint/state/est_streams.h"
#include "kernels/digest.h"

namespace estrain::train {
namespace {

void switch_streams_in(Workplace& place, VirtualRank rank, Step step) {
  std::byte* state = place.host_state(step);
  const EstPlaces& ests = place.job.places().ests;
  auto generator = ests.has_cuda_streams() ? place.device.generator() : std::nullopt;
  model::Interpreter* python = place.job.network().interpreter();
  if (place.seeded_step == step) {
    if (python != nullptr) python->seed_streams(place.job.seed_of(rank));
    est::switch_seeded_generator_in(place.job.seed_of(rank));
    if (generator) generator->set_current_seed(place.job.seed_of(rank));
    return;
  }
  if (python != nullptr) python->load_streams(ests.python_streams(state, rank));
  est::switch_generator_in(ests.generator(state, rank));
  if (generator) est::switch_cuda_generator_in(*generator, ests.cuda_generator(state, rank));
}

void switch_in(Workplace& place, VirtualRank rank, Step step) {
  switch_streams_in(place, rank, step);
  operators::begin_est_stream(static_cast<uint32_t>(rank.value), static_cast<uint64_t>(step.value));
  place.model.load_buffers(step);
}

}  // namespace

void Workplace::require_memory() const {
  if (refused_memory == nullptr || refused_memory->load() == 0) return;
  throw Error(Fault::io, "memory was refused to this worker, and libraries may have computed other bits without it")
      .advise("raise the limit of address space (ulimit -v), or give the job more memory");
}

void Workplace::require_covered() const {
  if (watch == nullptr || watch->uncovered().empty()) return;
  throw Error::make(Fault::infeasible,
                    "D2 cannot be had any longer: the model's Python code called {}, which has no portable kernel; no "
                    "earlier mini-batch did",
                    watch->uncovered())
      .advise(
          "use job.determinism = \"D1\" in a new run, or write it in operators that `estrain check` lists as covered");
}

torch::Tensor forward(Workplace& place, const data::LoadedBatch& batch, Step step) {
  switch_in(place, batch.rank(), step);
  return place.job.network().model().loss(as_tensors(batch, place.device));
}

BegunPass begin_pass(Workplace& place, const DeviceBatch& batch, Step step) {
  RECORD_USER_SCOPE(fmt::format("EST {}: forward", batch.rank));
  switch_in(place, batch.rank, step);
  const bool named = !batch.tensors.fields.empty();
  const auto pass = [&place, named](const std::vector<torch::Tensor>& inputs) {
    const torch::Tensor loss = place.job.network().model().loss(named ? model::MiniBatch{{}, {}, inputs}
                                                                      : model::MiniBatch{inputs[0], inputs[1]});
    std::vector<torch::Tensor> outputs = place.hooks.collect(loss);
    outputs.push_back(loss.detach());
    return outputs;
  };
  if (device::CapturedPasses* captured = place.device.captured_passes()) {
    // The two copies of a resident state have different addresses.
    const int64_t variant = place.resident ? step.value & 1 : 0;
    if (auto outputs = captured->run(batch.tensors.tensors(), variant, pass)) {
      const torch::Tensor loss = outputs->back();
      outputs->pop_back();
      return {batch.rank, loss, std::move(outputs)};
    }
  }
  return {batch.rank, place.job.network().model().loss(batch.tensors), std::nullopt};
}

torch::Tensor end_pass(const BegunPass& pass, const BackwardPass& then) {
  RECORD_USER_SCOPE(fmt::format("EST {}: backward", pass.rank));
  if (pass.gradients) {
    then.take(*pass.gradients);
  } else {
    then.run(pass.loss);
  }
  return pass.loss.detach();
}

uint64_t save_streams(Workplace& place, Step step, VirtualRank rank) {
  const TrainingJob& job = place.job;
  const EstPlaces& ests = job.places().ests;
  std::byte* old_state = place.host_state(step);
  std::byte* new_state = place.host_state(step.next());
  std::byte* saved = ests.generator(new_state, rank);
  est::switch_generator_out(saved);
  const uint64_t digest = kernels::digest(saved, est::generator_state_bytes());
  uint64_t python_digest = 0;
  if (model::Interpreter* python = job.network().interpreter()) {
    std::byte* streams = ests.python_streams(new_state, rank);
    python->store_streams(streams);
    python_digest = kernels::digest(streams, python->stream_bytes());
  }
  if (!ests.has_cuda_streams()) return checkpoint::streams_digest(digest, 0, python_digest);
  std::byte* saved_cuda = ests.cuda_generator(new_state, rank);
  if (const auto generator = place.device.generator()) {
    est::switch_cuda_generator_out(*generator, saved_cuda);
  } else if (place.seeded_step == step) {
    est::seeded_cuda_generator_state(job.seed_of(rank), saved_cuda);
  } else {
    std::memcpy(saved_cuda, ests.cuda_generator(old_state, rank), est::cuda_generator_state_bytes);
  }
  return checkpoint::streams_digest(digest, kernels::digest(saved_cuda, est::cuda_generator_state_bytes),
                                    python_digest);
}

}  // namespace estrain::train
