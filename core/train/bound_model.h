#pragma once
// The model's tensors bound to memory: parameters are views of the shared state, buffers of a small area of this
// process.
//
// All parameters are views of one storage, whose base is switched between the two copies of the state: changing the
// step costs one pointer, whatever the number of parameters.

#include <c10/core/Storage.h>

#include <memory>

#include "core/train/job.h"

namespace estrain::train {

class BoundModel {
 public:
  BoundModel(Job& job, comm::JobMemory& memory);

  // Parameters read the copy of `step` from now on.
  void read_parameters_of(int64_t step);

  // What the ESTs see in the buffers: each one starts from the committed buffers, as DDP broadcasts rank 0's.
  void load_buffers(const std::byte* state);
  void store_buffers(std::byte* state) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };

  Job& job_;
  comm::JobMemory& memory_;
  c10::Storage storage_;
  std::unique_ptr<std::byte, Free> buffers_;
};

}  // namespace estrain::train
