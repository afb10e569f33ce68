#pragma once
// Marks functions compiled for both CPU and CUDA.

#ifdef __CUDACC__
#define ESTRAIN_HOST_DEVICE __host__ __device__
#else
#define ESTRAIN_HOST_DEVICE
#endif
