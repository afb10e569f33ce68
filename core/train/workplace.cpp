#include "core/train/workplace.h"

#include "core/est/generator.h"
#include "core/operators/random_stream.h"
#include "core/train/batch_tensors.h"

namespace estrain::train {

torch::Tensor forward(Workplace& place, const data::Batch& batch, int64_t step) {
  std::byte* state = place.memory.state(static_cast<int>(step & 1));
  const int64_t rank = batch.rank().value;
  est::switch_generator_in(place.job.generator(state, rank));
  operators::begin_random_stream(static_cast<uint64_t>(place.job.spec().job.seed), static_cast<uint32_t>(rank),
                                 static_cast<uint64_t>(step));
  place.model.load_buffers(state);
  return place.job.model().loss(as_tensors(batch));
}

}  // namespace estrain::train
