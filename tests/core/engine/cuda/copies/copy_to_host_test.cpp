#include "core/engine/cuda/copies/copy_to_host.h"

#include <ATen/ops/equal.h>

#include "tests/core/engine/cuda/simulated.h"

namespace estrain::cuda {
namespace {

TEST_CASE("a copy to the host has what was computed before it, once its event has come") {
  const at::Tensor there = full_on_gpu(1000, 3), here = page_locked(1000, -1);
  there.mul_(2);
  const Copied copied = copy_to_host(here.mutable_data_ptr(), there.const_data_ptr(), here.nbytes(), copying_stream());
  CHECK(!copied->query());
  CHECK(here[999].item<float>() == -1);
  copied->synchronize();
  CHECK(at::equal(here, at::full({1000}, 6.0f)));
}

}  // namespace
}  // namespace estrain::cuda
