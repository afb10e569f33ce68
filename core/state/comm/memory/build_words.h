#pragma once
// The build of the program of a run's workers. The first worker states the build, and all later workers must have the
// same: if the program or LibTorch was replaced while the job ran, a new worker may compute other bits.

#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

class BuildWords {
 public:
  explicit BuildWords(MemoryHeader& words) : words_(words) {}

  // Tells whether a worker of build `own` may join. 0: the worker lacks the part, and may.
  bool admits_program(uint64_t own) { return admits(words_.worker_build, own); }  // program, worker library, LibTorch
  bool admits_cuda(uint64_t own) { return admits(words_.cuda_build, own); }       // the parts of both for CUDA

 private:
  static bool admits(std::atomic<uint64_t>& of_run, uint64_t own) {
    uint64_t first = 0;
    return own == 0 || of_run.compare_exchange_strong(first, own) || first == own;
  }

  MemoryHeader& words_;
};

}  // namespace estrain::comm
