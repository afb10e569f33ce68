#include "core/engine/operators/row_sums.h"

#include "core/engine/operators/float_tensor.h"
#include "kernels/portable/embedding.h"

namespace estrain::operators {

at::Tensor sum_into_rows(const at::Tensor& values, const at::Tensor& indices, int64_t rows) {
  const at::Tensor dy = values.contiguous(), index = indices.contiguous();
  kernels::portable::EmbeddingShape shape;
  shape.vocabulary = rows;
  shape.d = dy.size(1);
  shape.n = index.numel();
  at::Tensor sums = new_floats({rows, shape.d}, dy);
  kernels::portable::embedding_backward(sums.mutable_data_ptr<float>(), dy.const_data_ptr<float>(),
                                        index.const_data_ptr<int64_t>(), shape, execution_on(dy));
  return sums;
}

}  // namespace estrain::operators
