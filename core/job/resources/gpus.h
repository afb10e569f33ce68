#pragma once
// Facts about this machine's GPUs without calling CUDA, since the launcher never does: whether workers could use a GPU,
// and the models. Only a worker finds out whether a GPU works.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/job/resources/allocation.h"

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

// Returns the bytes of the same GPUs, in the same order; empty if unknown. `read`: as memory_of_gpus_at().
using ReadMemoryOfGpus = std::function<std::vector<uint64_t>(const std::vector<std::string>& places)>;
std::vector<uint64_t> gpu_memories(const std::string& folder, const std::optional<std::string>& visible,
                                   const ReadMemoryOfGpus& read);
std::vector<uint64_t> gpu_memories();  // of this machine

// The facts behind the choice of GPUs for "auto".
struct GpuFacts {
  GpuSupport support = {};
  int64_t seen = 0;                     // GPUs that the driver shows to this process; 0: none, or unknown
  bool sliced = false;                  // a GPU is partitioned (MIG)
  std::optional<int64_t> granted = {};  // GPUs of the allocation (Allocation::gpus)
  std::string granted_by = {};          // "CUDA_VISIBLE_DEVICES", "SLURM_GPUS_ON_NODE"
  bool in_slurm = false;                // a Slurm job without a grant has no GPU

  static GpuFacts here(const Allocation& allocation);
};

// The GPUs taken by "auto", and the number of visible GPUs left unused.
struct AutomaticGpus {
  int64_t usable = 0;     // cuda:0, cuda:1, …
  std::string from = {};  // the source of the number
  int64_t unused = 0;
  std::string why = {};  // `unused` is not 0; with advice

  // Leaves all usable GPUs unused, for this reason.
  void leave(std::string reason);
  // Returns the device list of a job with `ests` ESTs: "cuda*2"; without usable GPUs "auto", which leads to the cores.
  std::string device_list(int64_t ests) const;
  // "2 GPUs are visible and not used: …"; empty: none is left unused.
  std::string warning() const;
};
AutomaticGpus automatic_gpus(const GpuFacts& facts);  // pure

// Throws Fault::device, with advice, if a worker on `device` ("cuda:0") lacks something.
void require_gpu_support(const GpuSupport& support, const std::string& device);

}  // namespace estrain::resources
