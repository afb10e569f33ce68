#include "core/engine/model/autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <doctest/doctest.h>

#include "tests/core/engine/model/same_bits.h"
#include "tests/core/engine/model/sample_jobs.h"

namespace estrain::model {
namespace {

using spec::Precision;

std::vector<torch::Tensor> gradients_of(const Model& model) {
  std::vector<torch::Tensor> gradients;
  for (auto& [name, parameter] : named_tensors(model).parameters) {
    gradients.push_back(parameter.grad());
    parameter.mutable_grad().reset();
  }
  return gradients;
}

// Loss, then gradients.
std::vector<torch::Tensor> train_pass(Model& model, const Batch& batch) {
  torch::manual_seed(3);  // for dropout masks
  const torch::Tensor loss = model.loss(batch);
  loss.backward();
  std::vector<torch::Tensor> all = gradients_of(model);
  all.insert(all.begin(), loss.detach());
  return all;
}

TEST_CASE("every model trains under bf16: float32 losses, gradients, buffers and evaluations, of other bits") {
  for (const char* name : kZooNames) {
    CAPTURE(name);
    const Batch batch = batch_for(name);
    for (const double smoothing : {0.0, 0.1}) {
      if (smoothing > 0 && name != std::string("mlp") && name != std::string("gpt")) continue;  // all have one loss
      const auto plain = build_sample(section_of(name), seeded(1), smoothing);
      const auto model = build_sample(section_of(name), seeded(1), smoothing);
      model->set_precision(Precision::bf16);
      const Evaluation in_fp32 = plain->evaluate(batch), in_bf16 = model->evaluate(batch);
      CHECK(in_bf16.losses.dtype() == torch::kFloat);
      CHECK_FALSE(same_bits(in_bf16.losses, in_fp32.losses));
      const auto expected = train_pass(*plain, batch), found = train_pass(*model, batch);
      for (const torch::Tensor& tensor : found) {
        CHECK(tensor.dtype() == torch::kFloat);
        CHECK(tensor.isfinite().all().item<bool>());
      }
      CHECK_FALSE(same_bits(found[0], expected[0]));
      CHECK(found[0].item<float>() == doctest::Approx(expected[0].item<float>()).epsilon(0.5));
      for (const auto& [buffer, values] : named_tensors(*model).buffers) CHECK(values.dtype() != torch::kBFloat16);
    }
  }
}

TEST_CASE("tf32 changes nothing on the CPU") {
  const Batch batch = batch_for("lenet");
  const auto plain = build_sample(section_of("lenet"), seeded(1)), model = build_sample(section_of("lenet"), seeded(1));
  model->set_precision(Precision::tf32);
  const auto expected = train_pass(*plain, batch), found = train_pass(*model, batch);
  for (size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
}

// For a model that uses one weight in three places: twice uncast and, last, cast.
torch::Tensor gradient_of_shared_weight(const torch::Tensor& weight, const torch::Tensor& input) {
  torch::Tensor loss;
  {
    const Autocast autocast(c10::kCPU, Precision::bf16);
    const torch::Tensor squares = weight.square().mean(), sum = (weight * 0.37).sum();
    loss = squares + sum + at::linear(input, weight).to(torch::kFloat).square().mean();
  }
  loss.backward();
  return std::exchange(weight.mutable_grad(), {});
}

TEST_CASE("a mini-batch's gradient is the same behind another one as by itself") {
  torch::manual_seed(5);
  const torch::Tensor weight = torch::randn({64, 64}).requires_grad_(), input = torch::randn({16, 64});
  const torch::Tensor first = gradient_of_shared_weight(weight, input);
  CHECK(same_bits(gradient_of_shared_weight(weight, input), first));

  // If autocast spans both passes, the cast is cached, and the order of the sum differs.
  const Autocast kept(c10::kCPU, Precision::bf16);
  gradient_of_shared_weight(weight, input);
  CHECK_FALSE(same_bits(gradient_of_shared_weight(weight, input), first));
}

TEST_CASE("a weight that changed in place is cast anew") {
  torch::Tensor weight = torch::ones({4, 4}).requires_grad_();
  const torch::Tensor input = torch::ones({1, 4});
  const auto product = [&] {
    const Autocast autocast(c10::kCPU, Precision::bf16);
    return at::linear(input, weight).sum().item<float>();
  };
  CHECK(product() == 16);
  weight.set_data(torch::full({4, 4}, 2.0f));
  CHECK(product() == 32);
}

TEST_CASE("what was set before holds again at the end, however it is reached") {
  const auto state = [] {
    return std::tuple(at::autocast::is_autocast_enabled(at::kCPU), at::autocast::get_autocast_dtype(at::kCPU),
                      at::autocast::is_autocast_cache_enabled());
  };
  const auto before = state();
  const auto fails = [&] {
    const Autocast outer(c10::kCPU, Precision::bf16), nothing(c10::kCPU, Precision::fp32);
    CHECK(at::autocast::is_autocast_enabled(at::kCPU));
    { const Autocast inner(c10::kCPU, Precision::bf16); }
    CHECK(at::autocast::is_autocast_enabled(at::kCPU));
    throw std::runtime_error("a label is wrong");
  };
  CHECK_THROWS(fails());
  CHECK((state() == before));
  CHECK(at::autocast::increment_nesting() == 1);
  at::autocast::decrement_nesting();
}

}  // namespace
}  // namespace estrain::model
