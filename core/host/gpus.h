#pragma once
// What can be said of this machine's GPUs without a call of CUDA, which the launcher never makes: whether workers could
// use one at all, and of which models they are. Whether they compute is the worker's to find out.

#include <optional>
#include <string>
#include <vector>

namespace estrain::host {

struct GpuSupport {
  bool driver = false;  // an NVIDIA driver runs (its devices or its version in /proc are there; /dev/dxg under Windows)
  bool library = false;  // libestrain_cuda.so stands beside the program

  static GpuSupport here();
};

// The models of the GPUs ("NVIDIA H100 80GB HBM3") that a worker counts as cuda:0, cuda:1, …, by what the driver writes
// into `folder`, a subfolder for each GPU by its place on the bus; `visible`: CUDA_VISIBLE_DEVICES, absent: all. Empty
// where that does not tell, as under Windows or where a GPU is cut into slices.
std::vector<std::string> gpu_models(const std::string& folder, const std::optional<std::string>& visible);
std::vector<std::string> gpu_models();  // of this machine

// Throws Fault::device: what is missing for a worker on `device` ("cuda:0"), and what to do.
void require_gpu_support(const GpuSupport& support, const std::string& device);

}  // namespace estrain::host
