#include "core/train/initial_state.h"

#include <algorithm>
#include <cstring>

#include "core/checkpoint/models/model_file.h"
#include "core/checkpoint/state/est_streams.h"
#include "core/est/generator.h"
#include "core/train/evaluation/early_stop.h"

namespace estrain::train {

void write_first_state(Job& job, std::byte* state) {
  for (size_t i = 0; i < job.parameters().size(); ++i) {
    const torch::Tensor& parameter = job.parameters()[i];
    std::memcpy(job.parameter(state, i), parameter.const_data_ptr(), parameter.nbytes());
  }
  for (size_t i = 0; i < job.buffers().size(); ++i) {
    const torch::Tensor& buffer = job.buffers()[i];
    std::memcpy(job.buffers(state) + job.buffer_offset(i), buffer.const_data_ptr(), buffer.nbytes());
  }
  if (!job.spec().model.init.empty()) checkpoint::read_model(job.spec().model.init, job.layout(), state);
  if (job.follows_metric())
    job.write_plateau(state, optim::plateau_start(job.spec().schedule), job.learning_rates(Step(0)));
  if (job.may_end_early()) write_first_early_stop(job, state);
  if (job.keeps_average()) std::memcpy(job.averages(state), state, job.parameters_bytes());
  for (VirtualRank rank; rank.value < job.spec().job.ests; ++rank) {
    est::seeded_generator_state(job.seed_of(rank), job.generator(state, rank));
    if (job.has_cuda_streams()) est::seeded_cuda_generator_state(job.seed_of(rank), job.cuda_generator(state, rank));
    if (model::Interpreter* python = job.interpreter()) {
      python->seed_streams(job.seed_of(rank));
      python->store_streams(job.python_streams(state, rank));
    }
  }
}

void read_state(const checkpoint::CheckpointFile& file, const Job& job, std::byte* state) {
  const auto is_cuda_stream = [](const checkpoint::StateTensor& tensor) {
    return tensor.slot == checkpoint::cuda_generator_slot;
  };
  if (!job.has_cuda_streams() || std::ranges::any_of(file.layout().tensors, is_cuda_stream))
    return file.read_state(job.layout(), state);
  checkpoint::StateLayout older = job.layout();
  std::erase_if(older.tensors, is_cuda_stream);
  file.read_state(older, state);
  for (VirtualRank rank; rank.value < job.spec().job.ests; ++rank)
    est::seeded_cuda_generator_state(job.seed_of(rank), job.cuda_generator(state, rank));
}

}  // namespace estrain::train
