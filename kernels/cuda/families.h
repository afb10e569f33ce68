#pragma once
// Tables of functions, defined by the .cu files of this folder and combined by kernels.cu.

#include "kernels/cuda/grid.h"
#include "kernels/portable/calls/device_kernels.h"

namespace estrain::kernels::cuda {

static inline const DeviceQueue& queue_of(const Execution& execution) { return *execution.device; }

extern const AttentionLoops attention_kernels;
extern const BatchNormLoops batch_norm_kernels;
extern const ElementwiseLoops elementwise_kernels;
extern const LayerNormLoops layer_norm_kernels;
extern const LstmLoops lstm_kernels;
extern const PoolingLoops pooling_kernels;
extern const RandomLoops random_kernels;
extern const SoftmaxLoops softmax_kernels;

void gemm(const portable::Gemm& gemm, const Execution& execution);

void convolution_forward(const portable::Convolution& shape, const float* x, const float* w, const float* bias,
                         float* y, const Execution& execution);
void convolution_backward_data(const portable::Convolution& shape, const float* dy, const float* w, float* dx,
                               const Execution& execution);
void convolution_backward_filter(const portable::Convolution& shape, const float* x, const float* dy, float* dw,
                                 const Execution& execution);
void convolution_backward_bias(const portable::Convolution& shape, const float* dy, float* db,
                               const Execution& execution);

void sum(float* out, const float* x, const portable::Reduced& shape, const Execution& execution);
void mean(float* out, const float* x, const portable::Reduced& shape, const Execution& execution);
void sum_of_squares(float* out, const float* x, const portable::Reduced& shape, const Execution& execution);
void l2_norm(float* out, const float* x, const portable::Reduced& shape, const Execution& execution);
void variance(float* out, float* mean, const float* x, const portable::Reduced& shape,
              const portable::VarianceOptions& options, const Execution& execution);

// out[i] = partials[i][0] + partials[i][1] + ..., in order; at least one block.
void add_in_order(float* out, const float* partials, int64_t outputs, int64_t blocks, const DeviceQueue& queue);

void nll_loss(float* out, float* total_weight, const float* x, const portable::NllLoss& loss,
              const Execution& execution);
void nll_loss_backward(float* out, const float* gradient, portable::TotalWeight total_weight,
                       const portable::NllLoss& loss, const Execution& execution);

void embedding_backward(float* dweight, const float* dy, const int64_t* indices, const portable::EmbeddingShape& shape,
                        const Execution& execution);

void upsample_nearest(float* y, const float* x, const portable::UpsampleShape& shape, const Execution& execution);
void upsample_nearest_backward(float* dx, const float* dy, const portable::UpsampleShape& shape,
                               const Execution& execution);
void upsample_bilinear(float* y, const float* x, const portable::UpsampleShape& shape, const Execution& execution);
void upsample_bilinear_backward(float* dx, const float* dy, const portable::UpsampleShape& shape,
                                const Execution& execution);

void random_integers(int64_t* out, int64_t n, int64_t lo, int64_t hi, const PhiloxCounter& counter,
                     const Execution& execution);
void permutation(int64_t* out, int64_t n, const PhiloxCounter& counter, const Execution& execution);

void fill(float* out, int64_t n, float x, const Execution& execution);
void copy(float* out, const float* x, int64_t n, const Execution& execution);

}  // namespace estrain::kernels::cuda
