#include "core/engine/model/model.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/core/engine/model/same_bits.h"
#include "tests/core/engine/model/sample_jobs.h"

namespace estrain::model {
namespace {

// Binds all parameters of `model` to one block of memory, each at a multiple of 64 bytes, as a worker does.
torch::Tensor bind_to_arena(const Model& model) {
  const NamedTensors tensors = named_tensors(model);
  const auto padded = [](const torch::Tensor& tensor) { return (tensor.numel() + 15) / 16 * 16; };
  int64_t total = 0;
  for (const auto& [name, parameter] : tensors.parameters) total += padded(parameter);
  torch::Tensor arena = torch::zeros({total});
  int64_t first = 0;
  for (auto [name, parameter] : tensors.parameters) {
    parameter.set_data(arena.narrow(0, first, parameter.numel()).view(parameter.sizes()));
    first += padded(parameter);
  }
  return arena;
}

void copy_state(const Model& from, const Model& to) {
  at::NoGradGuard no_grad;
  const NamedTensors source = named_tensors(from), target = named_tensors(to);
  for (size_t i = 0; i < source.parameters.size(); ++i) target.parameters[i].second.copy_(source.parameters[i].second);
  for (size_t i = 0; i < source.buffers.size(); ++i) target.buffers[i].second.copy_(source.buffers[i].second);
}

torch::Tensor loss_of_pass(Model& model, const MiniBatch& batch) {
  torch::manual_seed(3);  // for dropout masks
  const torch::Tensor loss = model.loss(batch);
  loss.backward();
  return loss.detach();
}

TEST_CASE("a model built without draws and bound to an arena gives the bits of the one it was copied from") {
  for (const std::string name : {"mlp", "lenet", "resnet18", "resnet50", "gpt"}) {
    CAPTURE(name);
    auto section = section_of(name);
    section.dropout = 0.2;
    const auto original = build_sample(section, seeded(1));
    const auto bound = build_sample(section, Initializer::skip());
    const torch::Tensor arena = bind_to_arena(*bound);
    copy_state(*original, *bound);
    CHECK(arena.abs().sum().item<double>() > 0);

    const MiniBatch batch = batch_for(name);
    CHECK(same_bits(loss_of_pass(*original, batch), loss_of_pass(*bound, batch)));
    const NamedTensors want = named_tensors(*original), got = named_tensors(*bound);
    for (size_t i = 0; i < want.parameters.size(); ++i) {
      CAPTURE(want.parameters[i].first);
      REQUIRE(got.parameters[i].second.grad().defined());
      CHECK(same_bits(want.parameters[i].second.grad(), got.parameters[i].second.grad()));
    }
    for (size_t i = 0; i < want.buffers.size(); ++i) CHECK(want.buffers[i].second.equal(got.buffers[i].second));
  }
}

TEST_CASE("the loss is PyTorch's cross entropy, label smoothing included") {
  const MiniBatch batch = batch_for("lenet");
  const auto smoothed = build_sample(section_of("lenet"), seeded(1), 0.3);
  const auto plain = build_sample(section_of("lenet"), seeded(1));
  const torch::Tensor logits = plain->forward(batch.input);
  const auto cross_entropy = [&](double smoothing) {
    return at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Mean, -100, smoothing);
  };
  CHECK(same_bits(plain->loss(batch), cross_entropy(0)));
  CHECK(same_bits(smoothed->loss(batch), cross_entropy(0.3)));
  CHECK_FALSE(same_bits(smoothed->loss(batch), plain->loss(batch)));
}

TEST_CASE("evaluation tells loss and hits of each sample") {
  const auto model = build_sample(section_of("lenet"), seeded(1), 0.3);
  MiniBatch batch = batch_for("lenet");
  const torch::Tensor logits = model->forward(batch.input);
  batch.target = torch::stack({logits[0].argmax(), logits[1].argmin()});
  const EvaluatedBatch evaluation = model->evaluate(batch);
  CHECK(evaluation.correct.equal(torch::tensor({1, 0}, torch::kLong)));
  CHECK(evaluation.counted.equal(torch::tensor({1, 1}, torch::kLong)));
  CHECK(evaluation.losses.dtype() == torch::kFloat);
  CHECK_FALSE(evaluation.losses.requires_grad());
  CHECK(same_bits(evaluation.losses, at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::None).detach()));
}

TEST_CASE("evaluation of text counts every token") {
  const auto model = build_sample(section_of("gpt"), seeded(1));
  MiniBatch batch = batch_for("gpt");
  batch.input = batch.input.narrow(1, 0, 40).contiguous();  // shorter than the context
  model->eval();
  batch.target = model->forward(batch.input).argmax(2);
  batch.target[1].narrow(0, 0, 15).add_(1).remainder_(256);
  const EvaluatedBatch evaluation = model->evaluate(batch);
  CHECK(evaluation.counted.equal(torch::tensor({40, 40}, torch::kLong)));
  CHECK(evaluation.correct.equal(torch::tensor({40, 25}, torch::kLong)));
  CHECK(evaluation.losses.numel() == 2);
  batch.target[0].narrow(0, 0, 30).fill_(-100);
  const EvaluatedBatch less = model->evaluate(batch);
  CHECK(less.counted.equal(torch::tensor({10, 40}, torch::kLong)));
  CHECK(less.correct.equal(torch::tensor({10, 25}, torch::kLong)));
  CHECK(less.losses[0].item<float>() < evaluation.losses[0].item<float>());
  CHECK(same_bits(less.losses[1], evaluation.losses[1]));
}

TEST_CASE("evaluation draws nothing, updates nothing and restores the mode") {
  for (const std::string name : {"gpt", "resnet18"}) {
    CAPTURE(name);
    const auto model = build_sample(section_of(name), seeded(1));
    const MiniBatch batch = batch_for(name);
    std::vector<torch::Tensor> buffers;
    for (const torch::Tensor& buffer : model->buffers()) buffers.push_back(buffer.clone());
    const torch::Tensor generator = at::detail::getDefaultCPUGenerator().get_state();
    model->evaluate(batch);
    CHECK(at::detail::getDefaultCPUGenerator().get_state().equal(generator));
    for (size_t i = 0; i < buffers.size(); ++i) CHECK(model->buffers()[i].equal(buffers[i]));
    for (const auto& module : model->modules()) CHECK(module->is_training());
    model->eval();
    model->evaluate(batch);
    CHECK_FALSE(model->is_training());
  }
}

Fault fault_of_loss(const std::string& name, const MiniBatch& batch) {
  try {
    build_sample(section_of(name), seeded(1))->loss(batch);
  } catch (const Error& error) {
    CHECK_FALSE(error.advice().empty());
    return error.fault();
  }
  FAIL("no error");
  return Fault::bug;
}

TEST_CASE("labels and tokens beyond the classes are told") {
  MiniBatch images = batch_for("lenet");
  images.target[1] = 10;
  CHECK(fault_of_loss("lenet", images) == Fault::mismatch);
  MiniBatch text = batch_for("gpt");
  text.input[0][0] = 256;
  CHECK(fault_of_loss("gpt", text) == Fault::mismatch);
}

TEST_CASE("one image whose last layers are 1x1 cannot train through batch normalisation, but can be evaluated") {
  MiniBatch batch = batch_for("resnet18");
  batch = {batch.input.narrow(0, 0, 1), batch.target.narrow(0, 0, 1)};
  CHECK(fault_of_loss("resnet18", batch) == Fault::spec);
  const EvaluatedBatch evaluation = build_sample(section_of("resnet18"), seeded(1))->evaluate(batch);
  CHECK(evaluation.losses.isfinite().all().item<bool>());
}

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
std::vector<torch::Tensor> train_pass(Model& model, const MiniBatch& batch) {
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
    const MiniBatch batch = batch_for(name);
    for (const double smoothing : {0.0, 0.1}) {
      if (smoothing > 0 && name != std::string("mlp") && name != std::string("gpt")) continue;  // all have one loss
      const auto plain = build_sample(section_of(name), seeded(1), smoothing);
      const auto model = build_sample(section_of(name), seeded(1), smoothing);
      model->set_precision(Precision::bf16);
      const EvaluatedBatch in_fp32 = plain->evaluate(batch), in_bf16 = model->evaluate(batch);
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
  const MiniBatch batch = batch_for("lenet");
  const auto plain = build_sample(section_of("lenet"), seeded(1)), model = build_sample(section_of("lenet"), seeded(1));
  model->set_precision(Precision::tf32);
  const auto expected = train_pass(*plain, batch), found = train_pass(*model, batch);
  for (size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
}

// For a model that uses one weight in three places: twice uncast and, last, cast.
torch::Tensor gradient_of_shared_weight(const torch::Tensor& weight, const torch::Tensor& input) {
  torch::Tensor loss;
  {
    const AutocastGuard autocast(c10::kCPU, Precision::bf16);
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
  const AutocastGuard kept(c10::kCPU, Precision::bf16);
  gradient_of_shared_weight(weight, input);
  CHECK_FALSE(same_bits(gradient_of_shared_weight(weight, input), first));
}

TEST_CASE("a weight that changed in place is cast anew") {
  torch::Tensor weight = torch::ones({4, 4}).requires_grad_();
  const torch::Tensor input = torch::ones({1, 4});
  const auto product = [&] {
    const AutocastGuard autocast(c10::kCPU, Precision::bf16);
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
    const AutocastGuard outer(c10::kCPU, Precision::bf16), nothing(c10::kCPU, Precision::fp32);
    CHECK(at::autocast::is_autocast_enabled(at::kCPU));
    { const AutocastGuard inner(c10::kCPU, Precision::bf16); }
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
