// The gradient of an embedding's weight (kernels/portable/embedding.h).

#include "kernels/portable/embedding.h"

#include "core/operators/float_tensor.h"
#include "core/operators/registry.h"

namespace estrain::operators {
namespace {

using at::Tensor;

Tensor embedding_dense_backward(const Tensor& gradient, const Tensor& indices, int64_t rows, int64_t padding_index,
                                bool scale_by_frequency) {
  const Tensor dy = floats("embedding_dense_backward", gradient);
  const Tensor index = indices.to(at::kLong).contiguous();
  kernels::portable::EmbeddingShape shape;
  shape.vocabulary = rows;
  shape.d = dy.size(-1);
  shape.n = index.numel();
  shape.padding_index = padding_index;
  shape.scale_by_frequency = scale_by_frequency;
  Tensor weight = new_floats({rows, shape.d}, dy);
  kernels::portable::embedding_backward(weight.mutable_data_ptr<float>(), dy.const_data_ptr<float>(),
                                        index.const_data_ptr<int64_t>(), shape, execution_on(dy));
  return weight;
}

}  // namespace

void register_embedding(Registry& registry) { registry.replace("embedding_dense_backward", embedding_dense_backward); }

}  // namespace estrain::operators
