#pragma once
// What can be said of this machine's GPUs without a call of CUDA, which the launcher never makes: whether workers could
// use one at all. How many there are, and whether they compute, is the worker's to find out.

#include <string>

namespace estrain::launch {

struct GpuSupport {
  bool driver = false;  // an NVIDIA driver runs (its devices or its version in /proc are there; /dev/dxg under Windows)
  bool library = false;  // libestrain_cuda.so stands beside the program

  static GpuSupport here();
};

// Throws Fault::device: what is missing for a worker on `device` ("cuda:0"), and what to do.
void require_gpu_support(const GpuSupport& support, const std::string& device);

}  // namespace estrain::launch
