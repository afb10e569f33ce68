#include "tests/kernels/cuda/cases.h"

#include "tests/kernels/cuda/families.h"

namespace estrain::kernels::test {

std::vector<Case> all_cases() {
  return {{"elementwise", elementwise_case},
          {"random", random_case},
          {"permutation", permutation_case},
          {"reduction", reduction_case},
          {"softmax", softmax_case},
          {"cross_entropy", cross_entropy_case},
          {"batch_norm", batch_norm_case},
          {"layer_norm", layer_norm_case},
          {"pooling", pooling_case},
          {"upsample", upsample_case},
          {"embedding", embedding_case},
          {"gemm", gemm_case},
          {"convolution", convolution_case},
          {"attention", attention_case},
          {"optimizer", optimizer_case},
          {"sum", sum_case},
          {"lstm", lstm_case}};
}

}  // namespace estrain::kernels::test
