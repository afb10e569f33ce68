#include "kernels/portable/embedding.h"

#include <vector>

#include "kernels/portable/calls/device_kernels.h"
#include "kernels/portable/loops/embedding.h"
#include "kernels/workspace.h"

namespace estrain::kernels::portable {
namespace {

constexpr int kScaleSlot = 0;

// 1 / the number of occurrences of each row, counted exactly: a float counts by ones only up to 2^24.
void count_occurrences(float* scale, const int64_t* indices, const EmbeddingShape& shape) {
  std::vector<int64_t> counts(static_cast<size_t>(shape.vocabulary));
  for (int64_t i = 0; i < shape.n; ++i) {
    if (indices[i] >= 0 && indices[i] < shape.vocabulary) ++counts[static_cast<size_t>(indices[i])];
  }
  for (size_t v = 0; v < counts.size(); ++v) scale[v] = 1.0f / static_cast<float>(counts[v]);
}

}  // namespace

void embedding_backward(float* dweight, const float* dy, const int64_t* indices, const EmbeddingShape& shape,
                        const Execution& execution) {
  if (execution.device != nullptr)
    return execution.device->kernels->embedding_backward(dweight, dy, indices, shape, execution);
  float* scale = nullptr;
  if (shape.scale_by_frequency) {
    scale = workspace(kScaleSlot, static_cast<size_t>(shape.vocabulary));
    count_occurrences(scale, indices, shape);
  }
  embedding_loops(execution.isa)
      .backward({shape.vocabulary, shape.d, shape.n, shape.padding_index, dweight, dy, indices, scale}, execution);
}

}  // namespace estrain::kernels::portable
