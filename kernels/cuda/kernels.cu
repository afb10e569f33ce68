#include "kernels/cuda/families.h"
#include "kernels/cuda/kernels.h"

namespace estrain::kernels::cuda {

extern const portable::DeviceKernels device_kernels = {.attention = attention_kernels,
                                                       .batch_norm = batch_norm_kernels,
                                                       .elementwise = elementwise_kernels,
                                                       .layer_norm = layer_norm_kernels,
                                                       .lstm = lstm_kernels,
                                                       .pooling = pooling_kernels,
                                                       .random = random_kernels,
                                                       .softmax = softmax_kernels,
                                                       .gemm = gemm,
                                                       .convolution_forward = convolution_forward,
                                                       .convolution_backward_data = convolution_backward_data,
                                                       .convolution_backward_filter = convolution_backward_filter,
                                                       .convolution_backward_bias = convolution_backward_bias,
                                                       .sum = sum,
                                                       .mean = mean,
                                                       .sum_of_squares = sum_of_squares,
                                                       .l2_norm = l2_norm,
                                                       .variance = variance,
                                                       .nll_loss = nll_loss,
                                                       .nll_loss_backward = nll_loss_backward,
                                                       .embedding_backward = embedding_backward,
                                                       .upsample_nearest = upsample_nearest,
                                                       .upsample_nearest_backward = upsample_nearest_backward,
                                                       .upsample_bilinear = upsample_bilinear,
                                                       .upsample_bilinear_backward = upsample_bilinear_backward,
                                                       .random_integers = random_integers,
                                                       .permutation = permutation,
                                                       .fill = fill,
                                                       .copy = copy};

}  // namespace estrain::kernels::cuda
