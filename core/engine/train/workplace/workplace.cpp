#include "core/engine/train/workplace/workplace.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <malloc.h>
#include <torch/types.h>

#include <cstring>

#include "core/base/error.h"
#include "core/engine/est/generator.h"
#include "core/engine/operators/random_stream.h"
#include "core/state/checkpoint/state/est_streams.h"
#include "kernels/digest.h"

namespace estrain::train {
namespace {

using device::MirrorUse;

// Takes the strides of `like`. `like` is in C order; its strides may be channels_last's, too, if a dimension is 1.
torch::Tensor view_of(const c10::Storage& storage, const torch::Tensor& like, uint64_t byte_offset) {
  torch::Tensor view = torch::empty({0}, like.options().device(storage.device()).requires_grad(false));
  const int64_t element = static_cast<int64_t>(byte_offset / like.element_size());
  view.set_(storage, element, like.sizes(), like.strides());
  return view;
}

at::Tensor bytes_of(const c10::Storage& storage, size_t bytes) {
  at::Tensor all = torch::empty({0}, torch::dtype(torch::kByte).device(storage.device()));
  all.set_(storage, 0, {static_cast<int64_t>(bytes)}, {1});
  return all;
}

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

BoundModel::BoundModel(const Network& network, const StatePlaces& places, comm::JobMemory& memory,
                       device::ComputeDevice& device)
    : places_(places),
      memory_(memory),
      parameters_(device.mirror(places.model.parameters_bytes(), MirrorUse::read_only)),
      buffers_(device.mirror(places.model.buffers_bytes(), MirrorUse::written)) {
  for (const Step step : {Step(0), Step(1)}) device.expect_copies(memory.state_of(step), places.bytes);
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < places.model.num_parameters(); ++i) {
    torch::Tensor parameter = network.parameters()[i];
    parameter.set_data(view_of(parameters_->storage(), parameter, places.model.gradient_offset(i) * sizeof(float)));
  }
  for (size_t i = 0; i < places.model.num_buffers(); ++i) {
    torch::Tensor buffer = network.buffers()[i];
    buffer.set_data(view_of(buffers_->storage(), buffer, places.model.buffer_offset(i)));
  }
  buffer_bytes_ = bytes_of(buffers_->storage(), places.model.buffers_bytes());
  ::malloc_trim(0);  // the model's own parameters and buffers, which the allocator would keep for later
}

at::Tensor BoundModel::parameter_bytes() const {
  return bytes_of(parameters_->storage(), places_.model.parameters_bytes());
}

void BoundModel::read_parameters_of(Step step) {
  if (resident_ == nullptr) parameters_->load(memory_.state_of(step));
}

void BoundModel::read_averages_of(Step step) { parameters_->load(places_.averages.averages(memory_.state_of(step))); }

void BoundModel::load_buffers(Step step) {
  if (resident_ == nullptr) return buffers_->load(places_.model.buffers(memory_.state_of(step)));
  if (places_.model.buffers_bytes() > 0) buffer_bytes_.copy_(resident_->buffers(step), /*non_blocking=*/true);
}

void BoundModel::store_buffers(std::byte* state, std::function<void()> then) {
  buffers_->store(places_.model.buffers(state), std::move(then));
}

void BoundModel::put_buffers(const ResidentState& state, Step step) {
  if (places_.model.buffers_bytes() > 0) state.buffers(step).copy_(buffer_bytes_, /*non_blocking=*/true);
}

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
    const std::vector<torch::Tensor>& results = place.job.network().model().results();
    outputs.insert(outputs.end(), results.begin(), results.end());
    outputs.push_back(loss.detach());
    return outputs;
  };
  if (device::CapturedPasses* captured = place.device.captured_passes()) {
    if (auto outputs = captured->run(batch.tensors.tensors(), pass)) {
      const torch::Tensor loss = outputs->back();
      outputs->pop_back();
      const auto results = outputs->begin() + static_cast<std::ptrdiff_t>(place.job.network().parameters().size());
      const std::vector<torch::Tensor> kept(results, outputs->end());
      outputs->erase(results, outputs->end());
      return {batch.rank, loss, std::move(outputs), kept};
    }
  }
  model::Model& model = place.job.network().model();
  const torch::Tensor loss = model.loss(batch.tensors);
  return {batch.rank, loss, std::nullopt, model.results()};
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
