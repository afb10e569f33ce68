#include "core/engine/cuda/copies/uploads.h"

#include <ATen/ops/equal.h>

#include <vector>

#include "tests/core/engine/cuda/simulated.h"

namespace estrain::cuda {
namespace {

TEST_CASE("computations after await() see an upload; one from page-locked memory is copied from there") {
  Uploads uploads(copying_stream());
  const at::Tensor host = page_locked(300, 5);
  const at::Tensor there = uploads.upload(host);
  host.fill_(6);  // too soon for memory that is copied later
  uploads.await();
  CHECK(at::equal(there.add(1).cpu(), at::full({300}, 7.0f)));
}

TEST_CASE("memory that is not page-locked may change as soon as it is being uploaded") {
  Uploads uploads(copying_stream());
  at::Tensor host = at::full({300}, 5.0f);
  const at::Tensor there = uploads.upload(host);
  host.fill_(6);
  uploads.await();
  CHECK(at::equal(there.add(1).cpu(), at::full({300}, 6.0f)));
}

TEST_CASE("many uploads in a row arrive whole, whatever the host does with its memory") {
  Uploads uploads(copying_stream());
  for (int i = 0; i < 40; ++i) {
    CAPTURE(i);
    const at::Tensor there = uploads.upload(at::full({200}, static_cast<float>(i)));
    uploads.await();
    const at::Tensor twice = there.mul(2);
    if (i % 7 == 0) CHECK(at::equal(twice.cpu(), at::full({200}, 2.0f * static_cast<float>(i))));
  }
}

TEST_CASE("once uploads are finished, they have been copied and let go of their sources") {
  Uploads uploads(copying_stream());
  at::Tensor host = page_locked(100, 9);
  const auto owners = host.use_count();
  const at::Tensor there = uploads.upload(host);
  CHECK(host.use_count() > owners);
  uploads.finish();
  CHECK(host.use_count() == owners);
  host.fill_(0);
  CHECK(at::equal(there.cpu(), at::full({100}, 9.0f)));
}

}  // namespace
}  // namespace estrain::cuda
