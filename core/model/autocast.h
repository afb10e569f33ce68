#pragma once
// torch.autocast in C++: while an object lives, operators of one kind of device compute in bfloat16 where that is sound
// (products, convolutions, attention) and in float32 where it is not (sums, norms, losses), by LibTorch's own lists. A
// forward pass belongs inside, its backward pass outside: it takes the types of the forward pass.
//
// A weight is cast once per forward pass, however often it is used there, and the cast is dropped at the end, as in
// Python. It could be kept for the next EST, whose weights are the same, and must not be: the cast is a node of
// autograd's graph, made in the first EST's pass and therefore older than all nodes of the second one's. Autograd runs
// younger nodes first, so in the second EST's backward pass the weight's gradient would be added up in another order:
// other bits, depending on which EST came first on a worker. And all gradients of cast weights would come at the end of
// the pass, when nothing is left to hide their copies behind.

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include "core/spec/job_spec.h"

namespace estrain::model {

class Autocast {
 public:
  // Does nothing unless `precision` is bf16. Of this thread alone; objects may be nested.
  Autocast(c10::DeviceType device, spec::Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const c10::DeviceType device_;
  const bool active_;
  bool was_enabled_ = false, was_caching_ = false;
  c10::ScalarType dtype_before_{};
};

}  // namespace estrain::model
