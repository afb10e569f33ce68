#pragma once
// The portable kernels of a device other than the CPU: the functions of <family>.h call these kernels if
// Execution::device is set. All arrays are then in the device's memory, 4-byte aligned, and results are available once
// the queue has run the work. kernels/cuda/kernels.h has CUDA's implementation.
//
// A family with a table in loops/ has the same table here; other families have functions as in <family>.h.

#include "kernels/device_queue.h"
#include "kernels/portable/convolution.h"
#include "kernels/portable/cross_entropy.h"
#include "kernels/portable/embedding.h"
#include "kernels/portable/gemm.h"
#include "kernels/portable/loops/attention.h"
#include "kernels/portable/loops/batch_norm.h"
#include "kernels/portable/loops/elementwise.h"
#include "kernels/portable/loops/layer_norm.h"
#include "kernels/portable/loops/lstm.h"
#include "kernels/portable/loops/pooling.h"
#include "kernels/portable/loops/random.h"
#include "kernels/portable/loops/softmax.h"
#include "kernels/portable/reduction.h"
#include "kernels/portable/upsample.h"

namespace estrain::kernels::portable {

// The total_weight of cross_entropy.h: at `at`, in the device's memory, or `value` if `at` is null.
struct TotalWeight {
  const float* at = nullptr;
  float value = 0;
};

// clang-format off
// The families that a table of loops covers: type and name. The random table lacks `words`.
#define ESTRAIN_DEVICE_TABLES(each)                                                                               \
  each(AttentionLoops, attention)                                                                                 \
  each(BatchNormLoops, batch_norm)                                                                                \
  each(ElementwiseLoops, elementwise)                                                                             \
  each(LayerNormLoops, layer_norm)                                                                                \
  each(LstmLoops, lstm)                                                                                           \
  each(PoolingLoops, pooling)                                                                                     \
  each(RandomLoops, random)                                                                                       \
  each(SoftmaxLoops, softmax)

// All other functions: name and parameters. `out` of copy may be x.
#define ESTRAIN_DEVICE_FUNCTIONS(each)                                                                            \
  each(gemm, const portable::Gemm&, const Execution&)                                                             \
  each(convolution_forward, const portable::Convolution&, const float* x, const float* w, const float* bias,      \
       float* y, const Execution&)                                                                                \
  each(convolution_backward_data, const portable::Convolution&, const float* dy, const float* w, float* dx,       \
       const Execution&)                                                                                          \
  each(convolution_backward_filter, const portable::Convolution&, const float* x, const float* dy,                \
       float* dw, const Execution&)                                                                               \
  each(convolution_backward_bias, const portable::Convolution&, const float* dy, float* db, const Execution&)     \
  each(sum, float* out, const float* x, const portable::Reduced&, const Execution&)                               \
  each(mean, float* out, const float* x, const portable::Reduced&, const Execution&)                              \
  each(sum_of_squares, float* out, const float* x, const portable::Reduced&, const Execution&)                    \
  each(l2_norm, float* out, const float* x, const portable::Reduced&, const Execution&)                           \
  each(variance, float* out, float* mean, const float* x, const portable::Reduced&,                               \
       const portable::VarianceOptions&, const Execution&)                                                        \
  each(nll_loss, float* out, float* total_weight, const float* x, const portable::NllLoss&, const Execution&)     \
  each(nll_loss_backward, float* out, const float* gradient, portable::TotalWeight,                               \
       const portable::NllLoss&, const Execution&)                                                                \
  each(embedding_backward, float* dweight, const float* dy, const int64_t* indices,                               \
       const portable::EmbeddingShape&, const Execution&)                                                         \
  each(upsample_nearest, float* y, const float* x, const portable::UpsampleShape&, const Execution&)              \
  each(upsample_nearest_backward, float* dx, const float* dy, const portable::UpsampleShape&, const Execution&)   \
  each(upsample_bilinear, float* y, const float* x, const portable::UpsampleShape&, const Execution&)             \
  each(upsample_bilinear_backward, float* dx, const float* dy, const portable::UpsampleShape&, const Execution&)  \
  each(random_integers, int64_t* out, int64_t n, int64_t lo, int64_t hi, const PhiloxCounter&, const Execution&)  \
  each(permutation, int64_t* out, int64_t n, const PhiloxCounter&, const Execution&)                              \
  each(fill, float* out, int64_t n, float x, const Execution&)                                                    \
  each(copy, float* out, const float* x, int64_t n, const Execution&)
// clang-format on

struct DeviceKernels {
#define ESTRAIN_MEMBER_TABLE(Type, family) Type family;
#define ESTRAIN_MEMBER_FUNCTION(name, ...) void (*name)(__VA_ARGS__);
  ESTRAIN_DEVICE_TABLES(ESTRAIN_MEMBER_TABLE)
  ESTRAIN_DEVICE_FUNCTIONS(ESTRAIN_MEMBER_FUNCTION)
#undef ESTRAIN_MEMBER_TABLE
#undef ESTRAIN_MEMBER_FUNCTION
};

// The loops of a family for an execution.
#define ESTRAIN_LOOPS_OF(Type, family)                                                                      \
  static inline const Type& family##_loops_of(const Execution& execution) {                                 \
    return execution.device != nullptr ? execution.device->kernels->family : family##_loops(execution.isa); \
  }
ESTRAIN_DEVICE_TABLES(ESTRAIN_LOOPS_OF)
#undef ESTRAIN_LOOPS_OF

}  // namespace estrain::kernels::portable
