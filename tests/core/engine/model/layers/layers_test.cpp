#include "core/engine/model/layers/layers.h"

#include <doctest/doctest.h>
#include <torch/types.h>

#include "tests/core/engine/model/sample_jobs.h"
#include "tests/error_of.h"

namespace estrain::model {
namespace {

TEST_CASE("batch normalisation keeps PyTorch's statistics") {
  Initializer init = seeded(1);
  BatchNorm2d norm(init, 1);
  norm.forward(torch::tensor({1.0f, 3.0f}).view({2, 1, 1, 1}));
  CHECK(norm.running_mean.item<float>() == 0.1f * 2);
  CHECK(norm.running_var.item<float>() == doctest::Approx(0.9 + 0.1 * 2));  // the unbiased variance
  CHECK(norm.num_batches_tracked.item<int64_t>() == 1);
  norm.eval();
  norm.forward(torch::zeros({1, 1, 1, 1}));
  CHECK(norm.num_batches_tracked.item<int64_t>() == 1);
}

TEST_CASE("a channel with one value has no variance: refused in training before anything is counted, taken otherwise") {
  Initializer init = seeded(1);
  BatchNorm2d norm(init, 3);
  const torch::Tensor one = torch::ones({1, 3, 1, 1});
  const Error error = error_of([&] { norm.forward(one); });
  CHECK(error.fault() == Fault::spec);
  CHECK(error.advice().find("data.batch") != std::string::npos);
  CHECK(norm.num_batches_tracked.item<int64_t>() == 0);
  norm.forward(torch::ones({2, 3, 1, 1}));
  norm.forward(torch::ones({1, 3, 1, 2}));
  CHECK(norm.num_batches_tracked.item<int64_t>() == 2);
  norm.eval();
  CHECK(norm.forward(one).isfinite().all().item<bool>());
}

}  // namespace
}  // namespace estrain::model
