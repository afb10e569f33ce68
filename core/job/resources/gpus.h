#pragma once
// Facts about this machine's GPUs without calling CUDA, since the launcher never does: whether workers could use a GPU,
// and the models. Only a worker finds out whether a GPU works.

#include <optional>
#include <string>
#include <vector>

namespace estrain::resources {

struct GpuSupport {
  bool driver = false;   // an NVIDIA driver runs (its devices or its version in /proc exist; /dev/dxg under Windows)
  bool library = false;  // libestrain_cuda.so is beside the program

  static GpuSupport here();
};

// Returns the models ("NVIDIA H100 80GB HBM3") of the GPUs that a worker numbers cuda:0, cuda:1, …, read from the
// driver's `folder` with a subfolder for each GPU, named by its bus address. `visible`: CUDA_VISIBLE_DEVICES; absent:
// all. Empty if unknown, as under Windows or with a partitioned GPU.
std::vector<std::string> gpu_models(const std::string& folder, const std::optional<std::string>& visible);
std::vector<std::string> gpu_models();  // of this machine

// Throws Fault::device, with advice, if a worker on `device` ("cuda:0") lacks something.
void require_gpu_support(const GpuSupport& support, const std::string& device);

}  // namespace estrain::resources
