#pragma once
// Marks what CPU and CUDA code both compile.

#ifdef __CUDACC__
#define ESTRAIN_HOST_DEVICE __host__ __device__
#else
#define ESTRAIN_HOST_DEVICE
#endif
