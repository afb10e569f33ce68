#pragma once
// Foretells the memory that each of the GPUs of a job needs, if the GPUs keep the state (resident_state.h), from one
// mini-batch on any device. The numbers leave out CUDA's own memory (about 0.5 GB) and evaluations.

#include <cstdint>
#include <vector>

#include "core/engine/train/job/trial.h"

namespace estrain::train {

// The most memory of tensors that a mini-batch's forward and backward pass needs at once, besides parameters, buffers
// and inputs. Bytes.
struct PassBytes {
  uint64_t folded = 0;  // if each gradient is folded and freed as soon as the gradient is ready
  uint64_t held = 0;    // if all gradients are kept until the end
};
// Runs the mini-batch twice.
PassBytes measure_pass(const DryRun& trial, const model::MiniBatch& batch);

// Bytes of each of n GPUs, at entry n - 1.
struct GpuBytes {
  std::vector<uint64_t> memory;  // of the GPU
  std::vector<uint64_t> slots;   // of the optimizer: a part of `memory`, or with job.state = "host" in host memory
};
// For up to 64 GPUs. Each GPU has a worker, and the ESTs are divided evenly. `batch`: bytes of a mini-batch.
GpuBytes bytes_of_gpus(const TrainingJob& job, const PassBytes& pass, uint64_t batch);

}  // namespace estrain::train
