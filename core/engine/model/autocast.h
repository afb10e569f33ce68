#pragma once
// Does torch.autocast in C++: during an object's lifetime, operators of one kind of device compute in bfloat16 where
// bfloat16 is safe (products, convolutions, attention) and in float32 elsewhere (sums, norms, losses), by LibTorch's
// own lists. The forward pass belongs inside. The backward pass belongs outside: it uses the types of the forward pass.
//
// A weight is cast once per forward pass, for any number of uses, and the cast is dropped at the end, as in Python.
// Keeping the cast for the next EST, whose weights are equal, would change bits: the cast is a node of autograd's
// graph, made in the first EST's pass and so older than all nodes of the second pass. Autograd runs younger nodes
// first, so the second EST's backward pass would sum the weight's gradient in another order, and the order would depend
// on the first EST of a worker. Also, all gradients of cast weights would come at the end of the pass, when no work is
// left to overlap with their copies.

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include "core/job/spec/job_spec.h"

namespace estrain::model {

class Autocast {
 public:
  // Does nothing unless `precision` is bf16. Affects only this thread; objects may be nested.
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
