#include "core/engine/train/initial_state.h"

#include <algorithm>
#include <cstring>

#include "core/engine/est/generator.h"
#include "core/engine/train/evaluation/evaluation.h"
#include "core/state/checkpoint/state/est_streams.h"

namespace estrain::train {

namespace {

void write_first_streams(const TrainingJob& job, VirtualRank rank, std::byte* state) {
  const EstPlaces& ests = job.places().ests;
  const uint64_t seed = job.seed_of(rank);
  est::seeded_generator_state(seed, ests.generator(state, rank));
  if (ests.has_cuda_streams()) est::seeded_cuda_generator_state(seed, ests.cuda_generator(state, rank));
  if (model::Interpreter* python = job.network().interpreter()) {
    python->seed_streams(seed);
    python->store_streams(ests.python_streams(state, rank));
  }
}

}  // namespace

std::optional<checkpoint::TakenWeights> write_first_state(TrainingJob& job, std::byte* state) {
  const StatePlaces& places = job.places();
  for (size_t i = 0; i < places.model.num_parameters(); ++i) {
    const torch::Tensor parameter = job.network().parameters()[i].cpu();
    std::memcpy(places.model.parameter(state, i), parameter.const_data_ptr(), parameter.nbytes());
  }
  for (size_t i = 0; i < places.model.num_buffers(); ++i) {
    const torch::Tensor buffer = job.network().buffers()[i].cpu();
    std::memcpy(places.model.buffer(state, i), buffer.const_data_ptr(), buffer.nbytes());
  }
  const spec::ModelSection& model = job.spec().model;
  std::optional<checkpoint::TakenWeights> taken;
  if (!model.init.empty())
    taken = checkpoint::read_model({model.init, model.init_match, model.init_prefix}, job.layout(), state);
  if (places.metrics.has_plateau())
    places.metrics.write_plateau(state,
                                 {optim::plateau_start(job.spec().schedule), job.schedules().scheduled_at(Step(0))});
  if (places.metrics.has_early_stop()) write_first_early_stop(job, state);
  if (places.averages.are_kept()) std::memcpy(places.averages.averages(state), state, places.model.parameters_bytes());
  for (VirtualRank rank; rank.value < job.spec().job.ests; ++rank) write_first_streams(job, rank, state);
  return taken;
}

void read_state(const checkpoint::CheckpointFile& file, const TrainingJob& job, std::byte* state) {
  const auto is_cuda_stream = [](const checkpoint::StateTensor& tensor) {
    return tensor.slot == checkpoint::cuda_generator_slot;
  };
  const EstPlaces& ests = job.places().ests;
  if (!ests.has_cuda_streams() || std::ranges::any_of(file.layout().tensors, is_cuda_stream))
    return file.read_state(job.layout(), state);
  checkpoint::StateLayout older = job.layout();
  std::erase_if(older.tensors, is_cuda_stream);
  file.read_state(older, state);
  for (VirtualRank rank; rank.value < job.spec().job.ests; ++rank)
    est::seeded_cuda_generator_state(job.seed_of(rank), ests.cuda_generator(state, rank));
}

}  // namespace estrain::train
