#include "core/train/initial_state.h"

#include <cstring>

#include "core/checkpoint/model_file.h"
#include "core/est/generator.h"

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
  seed_generators(job, {VirtualRank(0), VirtualRank(job.spec().job.ests)}, state);
}

void seed_generators(const Job& job, EstRange ests, std::byte* state) {
  for (int64_t rank = ests.begin.value; rank < ests.end.value; ++rank) {
    est::seeded_generator_state(static_cast<uint64_t>(job.spec().job.seed + rank), job.generator(state, rank));
  }
}

}  // namespace estrain::train
