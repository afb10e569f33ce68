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

struct DeviceKernels {
  AttentionLoops attention;
  BatchNormLoops batch_norm;
  ElementwiseLoops elementwise;
  LayerNormLoops layer_norm;
  LstmLoops lstm;
  PoolingLoops pooling;
  RandomLoops random;  // without `words`
  SoftmaxLoops softmax;

  void (*gemm)(const Gemm&, const Execution&);

  void (*convolution_forward)(const Convolution&, const float* x, const float* w, const float* bias, float* y,
                              const Execution&);
  void (*convolution_backward_data)(const Convolution&, const float* dy, const float* w, float* dx, const Execution&);
  void (*convolution_backward_filter)(const Convolution&, const float* x, const float* dy, float* dw, const Execution&);
  void (*convolution_backward_bias)(const Convolution&, const float* dy, float* db, const Execution&);

  void (*sum)(float* out, const float* x, const Reduced&, const Execution&);
  void (*mean)(float* out, const float* x, const Reduced&, const Execution&);
  void (*sum_of_squares)(float* out, const float* x, const Reduced&, const Execution&);
  void (*l2_norm)(float* out, const float* x, const Reduced&, const Execution&);
  void (*variance)(float* out, float* mean, const float* x, const Reduced&, const VarianceOptions&, const Execution&);

  void (*nll_loss)(float* out, float* total_weight, const float* x, const NllLoss&, const Execution&);
  void (*nll_loss_backward)(float* out, const float* gradient, TotalWeight, const NllLoss&, const Execution&);

  void (*embedding_backward)(float* dweight, const float* dy, const int64_t* indices, const EmbeddingShape&,
                             const Execution&);

  void (*upsample_nearest)(float* y, const float* x, const UpsampleShape&, const Execution&);
  void (*upsample_nearest_backward)(float* dx, const float* dy, const UpsampleShape&, const Execution&);
  void (*upsample_bilinear)(float* y, const float* x, const UpsampleShape&, const Execution&);
  void (*upsample_bilinear_backward)(float* dx, const float* dy, const UpsampleShape&, const Execution&);

  void (*random_integers)(int64_t* out, int64_t n, int64_t lo, int64_t hi, const PhiloxCounter&, const Execution&);
  void (*permutation)(int64_t* out, int64_t n, const PhiloxCounter&, const Execution&);

  void (*fill)(float* out, int64_t n, float x, const Execution&);
  void (*copy)(float* out, const float* x, int64_t n, const Execution&);  // out may be x
};

// The loops of a family for an execution.
#define ESTRAIN_LOOPS_OF(Type, family)                                                                      \
  static inline const Type& family##_loops_of(const Execution& execution) {                                 \
    return execution.device != nullptr ? execution.device->kernels->family : family##_loops(execution.isa); \
  }
ESTRAIN_LOOPS_OF(AttentionLoops, attention)
ESTRAIN_LOOPS_OF(BatchNormLoops, batch_norm)
ESTRAIN_LOOPS_OF(ElementwiseLoops, elementwise)
ESTRAIN_LOOPS_OF(LayerNormLoops, layer_norm)
ESTRAIN_LOOPS_OF(LstmLoops, lstm)
ESTRAIN_LOOPS_OF(PoolingLoops, pooling)
ESTRAIN_LOOPS_OF(RandomLoops, random)
ESTRAIN_LOOPS_OF(SoftmaxLoops, softmax)
#undef ESTRAIN_LOOPS_OF

}  // namespace estrain::kernels::portable
