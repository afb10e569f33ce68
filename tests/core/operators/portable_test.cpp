#include "core/operators/portable.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/device/cpu_device.h"
#include "core/operators/float_tensor.h"
#include "core/operators/random_stream.h"

namespace estrain::operators {
namespace {

device::CpuDevice cpu;

using torch::Tensor;
using Function = std::function<Tensor(const std::vector<Tensor>&)>;

struct Case {
  const char* name;
  std::vector<std::vector<int64_t>> inputs;  // shapes; values from a normal distribution
  Function run;
  bool positive = false;  // take absolute values, away from zero
};

std::vector<Tensor> draw(const Case& each) {
  torch::manual_seed(3);
  std::vector<Tensor> inputs;
  for (const auto& shape : each.inputs) {
    Tensor x = torch::randn(shape);
    inputs.push_back(each.positive ? x.abs() + 0.1 : x);
  }
  return inputs;
}

// The result, and the gradients of all inputs for a loss that weighs every element of the result differently.
std::vector<Tensor> results(const Case& each, const std::vector<Tensor>& values, torch::Dtype type) {
  std::vector<Tensor> inputs;
  for (const Tensor& value : values) inputs.push_back(value.to(type).detach().clone().requires_grad_(true));
  const Tensor y = each.run(inputs);
  const Tensor weights = torch::linspace(-1, 1, y.numel(), torch::kDouble).to(type).view(y.sizes());
  (y * weights).sum().backward();
  std::vector<Tensor> all = {y.detach()};
  for (const Tensor& input : inputs) all.push_back(input.grad());
  return all;
}

double largest_error(const Tensor& got, const Tensor& expected) {
  return (got.to(torch::kDouble) - expected).abs().max().item<double>() / (expected.abs().max().item<double>() + 1e-30);
}

const auto kTanh = [](const std::vector<Tensor>& x) { return torch::gelu(x[0], "tanh"); };

std::vector<Case> differentiable_cases() {
  namespace F = torch::nn::functional;
  using In = const std::vector<Tensor>&;
  return {
      {"mm", {{7, 300}, {300, 5}}, [](In x) { return x[0].mm(x[1]); }},
      {"mm, transposed", {{300, 7}, {5, 300}}, [](In x) { return x[0].t().mm(x[1].t()); }},
      {"linear", {{3, 4, 20}, {11, 20}, {11}}, [](In x) { return at::linear(x[0], x[1], x[2]); }},
      {"bmm", {{3, 7, 20}, {3, 20, 5}}, [](In x) { return x[0].bmm(x[1]); }},
      {"baddbmm", {{3, 7, 5}, {3, 7, 20}, {3, 20, 5}}, [](In x) { return at::baddbmm(x[0], x[1], x[2], 0.5, 2); }},
      {"mv", {{7, 20}, {20}}, [](In x) { return x[0].mv(x[1]); }},
      {"conv2d",
       {{2, 6, 9, 8}, {4, 3, 3, 3}, {4}},
       [](In x) {
         return at::conv2d(x[0], x[1], x[2], {2, 1}, {1, 2}, {1, 2}, 2);
       }},
      {"conv2d, depthwise",
       {{2, 6, 9, 8}, {6, 1, 3, 3}, {6}},
       [](In x) { return at::conv2d(x[0], x[1], x[2], 1, 1, 1, 6); }},
      {"conv1d", {{2, 6, 20}, {4, 6, 3}, {4}}, [](In x) { return at::conv1d(x[0], x[1], x[2], 2, 1); }},
      {"batch_norm",
       {{4, 5, 6, 7}, {5}, {5}},
       [](In x) { return at::batch_norm(x[0], x[1], x[2], {}, {}, true, 0.1, 1e-5, false); }},
      {"layer_norm", {{4, 6, 33}, {33}, {33}}, [](In x) { return at::layer_norm(x[0], {33}, x[1], x[2]); }},
      {"softmax", {{4, 9, 3}}, [](In x) { return x[0].softmax(1); }},
      {"log_softmax", {{4, 99}}, [](In x) { return x[0].log_softmax(1); }},
      {"cross_entropy",
       {{4, 9}},
       [](In x) {
         return at::cross_entropy_loss(x[0], torch::tensor({1, 8, 0, 3}), {}, at::Reduction::Mean, -100, 0.1);
       }},
      {"mse_loss", {{4, 9}, {4, 9}}, [](In x) { return at::mse_loss(x[0], x[1]); }},
      {"max_pool2d", {{2, 3, 9, 8}}, [](In x) { return at::max_pool2d(x[0], 3, 2, 1); }},
      {"avg_pool2d", {{2, 3, 9, 8}}, [](In x) { return at::avg_pool2d(x[0], 3, 2, 1); }},
      {"adaptive_avg_pool2d",
       {{2, 3, 9, 8}},
       [](In x) {
         return at::adaptive_avg_pool2d(x[0], {4, 3});
       }},
      {"upsample_nearest2d",
       {{2, 3, 4, 5}},
       [](In x) {
         return at::upsample_nearest2d(x[0], {9, 8});
       }},
      {"upsample_bilinear2d",
       {{2, 3, 4, 5}},
       [](In x) {
         return at::upsample_bilinear2d(x[0], {9, 8}, false);
       }},
      {"attention",
       {{2, 3, 17, 8}, {2, 3, 17, 8}, {2, 3, 17, 8}},
       [](In x) { return at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true); }},
      {"attention, other keys",
       {{2, 3, 7, 8}, {2, 3, 17, 8}, {2, 3, 17, 8}},
       [](In x) { return at::scaled_dot_product_attention(x[0], x[1], x[2]); }},
      {"embedding",
       {{9, 4}},
       [](In x) {
         return at::embedding(x[0], torch::tensor({1, 8, 1, 3, 1}));
       }},
      {"sum",
       {{5, 6, 7}},
       [](In x) {
         return x[0].sum(at::OptionalIntArrayRef({0, 2}));
       }},
      {"mean", {{5, 6, 7}}, [](In x) { return x[0].mean({1}, true); }},
      {"var", {{5, 66}}, [](In x) { return x[0].var(at::OptionalIntArrayRef{1}, 1); }},
      {"norm", {{50, 66}}, [](In x) { return at::linalg_vector_norm(x[0], 2); }},
      {"gelu", {{777}}, [](In x) { return torch::gelu(x[0]); }},
      {"gelu, tanh", {{777}}, kTanh},
      {"silu", {{777}}, [](In x) { return torch::silu(x[0]); }},
      {"tanh", {{777}}, [](In x) { return x[0].tanh(); }},
      {"sigmoid", {{777}}, [](In x) { return x[0].sigmoid(); }},
      {"softplus", {{777}}, [](In x) { return at::softplus(x[0]); }},
      {"elu", {{777}}, [](In x) { return at::elu(x[0]); }},
      {"exp", {{777}}, [](In x) { return x[0].exp(); }},
      {"log", {{777}}, [](In x) { return x[0].log(); }, true},
      {"sqrt", {{777}}, [](In x) { return x[0].sqrt(); }, true},
      {"rsqrt", {{777}}, [](In x) { return x[0].rsqrt(); }, true},
      {"pow", {{777}}, [](In x) { return x[0].pow(3); }, true},
      {"sin", {{777}}, [](In x) { return x[0].sin(); }},
      {"add with a factor", {{7, 1}, {5}}, [](In x) { return x[0].add(x[1], 0.3); }},
      {"sub with a factor", {{7, 1}, {5}}, [](In x) { return x[0].sub(x[1], 0.3); }},
      {"addcmul", {{7, 5}, {5}, {7, 1}}, [](In x) { return x[0].addcmul(x[1], x[2], 0.3); }},
      {"addcdiv", {{7, 5}, {5}, {7, 1}}, [](In x) { return x[0].addcdiv(x[1], x[2], 0.3); }, true},
      {"lerp", {{7, 5}, {7, 5}}, [](In x) { return x[0].lerp(x[1], 0.3); }},
  };
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST_CASE("results and gradients are those of the same operators in double precision") {
  for (const Case& each : differentiable_cases()) {
    CAPTURE(each.name);
    const std::vector<Tensor> values = draw(each);
    const std::vector<Tensor> expected = results(each, values, torch::kDouble);
    const std::vector<Tensor> torchs = results(each, values, torch::kFloat);
    const PortableOperators portable(cpu);
    const std::vector<Tensor> got = results(each, values, torch::kFloat);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      REQUIRE(got[i].sizes() == expected[i].sizes());
      CHECK(largest_error(got[i], expected[i]) < 2e-6 + 4 * largest_error(torchs[i], expected[i]));
    }
  }
}

TEST_CASE("strides leave no trace") {
  const PortableOperators portable(cpu);
  const Tensor x = torch::randn({4, 6, 9, 8}), w = torch::randn({5, 6, 3, 3});
  const auto last = at::MemoryFormat::ChannelsLast;
  const std::vector<int64_t> dims = {0, 2, 3};
  CHECK(at::conv2d(x, w).equal(at::conv2d(x.contiguous(last), w.contiguous(last))));
  CHECK(x.sum(dims).equal(x.contiguous(last).sum(dims)));
  const Tensor a = torch::randn({30, 40}), b = torch::randn({40, 20});
  CHECK(a.mm(b).equal(a.t().contiguous().t().mm(b.t().contiguous().t())));
}

TEST_CASE("running statistics of batch norm, and evaluation with them") {
  const Tensor x = torch::randn({8, 5, 6, 6}) * 2 + 1, w = torch::rand({5}), b = torch::rand({5});
  const auto run = [&](torch::Dtype type) {
    Tensor mean = torch::zeros({5}, type), var = torch::ones({5}, type);
    at::batch_norm(x.to(type), w.to(type), b.to(type), mean, var, true, 0.1, 1e-5, false);
    const Tensor y = at::batch_norm(x.to(type), w.to(type), b.to(type), mean, var, false, 0.1, 1e-5, false);
    return std::vector<Tensor>{mean, var, y};
  };
  const std::vector<Tensor> expected = run(torch::kDouble);
  const PortableOperators portable(cpu);
  const std::vector<Tensor> got = run(torch::kFloat);
  for (size_t i = 0; i < got.size(); ++i) CHECK(largest_error(got[i], expected[i]) < 2e-6);
}

TEST_CASE("a random number depends on seed, virtual rank, step and call") {
  const PortableOperators portable(cpu);
  const auto numbers = [](uint64_t seed, uint32_t rank, uint64_t step, int skipped = 0) {
    begin_random_stream(seed, rank, step);
    for (int i = 0; i < skipped; ++i) torch::rand({3});
    return torch::rand({100});
  };
  CHECK(numbers(1, 2, 3).equal(numbers(1, 2, 3)));
  for (const Tensor& other : {numbers(2, 2, 3), numbers(1, 3, 3), numbers(1, 2, 4), numbers(1, 2, 3, 1)}) {
    CHECK_FALSE(other.equal(numbers(1, 2, 3)));
  }
  const auto from_generator = [](uint64_t seed) { return torch::rand({50}, at::detail::createCPUGenerator(seed)); };
  CHECK(from_generator(5).equal(from_generator(5)));
  CHECK_FALSE(from_generator(5).equal(from_generator(6)));
}

TEST_CASE("dropout keeps, scales and passes gradients on alike") {
  const PortableOperators portable(cpu);
  begin_random_stream(1, 0, 0);
  const Tensor x = torch::ones({10000}).requires_grad_(true);
  const Tensor y = at::dropout(x, 0.25, true);
  y.sum().backward();
  CHECK(y.equal(x.grad()));
  const double kept = y.gt(0).sum().item<double>() / 10000;
  CHECK(kept == doctest::Approx(0.75).epsilon(0.03));
  CHECK(y.max().item<float>() == doctest::Approx(1 / 0.75));
  CHECK(at::dropout(x, 0.25, false).equal(x));
}

TEST_CASE("attention's dropout draws the same in both directions") {
  const PortableOperators portable(cpu);
  const auto run = [](double nudge) {
    torch::manual_seed(1);
    const Tensor q = torch::randn({1, 2, 9, 4}), k = torch::randn({1, 2, 9, 4});
    Tensor v = torch::randn({1, 2, 9, 4});
    v[0][1][3][2] += nudge;
    v.requires_grad_(true);
    begin_random_stream(1, 0, 0);
    const Tensor y = at::scaled_dot_product_attention(q, k, v, {}, 0.5, true).sum();
    y.backward();
    return std::pair(y.item<double>(), v.grad()[0][1][3][2].item<double>());
  };
  // The result is linear in the values, so a difference quotient is its derivative.
  CHECK((run(0.5).first - run(0).first) / 0.5 == doctest::Approx(run(0).second).epsilon(1e-4));
}

TEST_CASE("integers, and what is exact, stay LibTorch's") {
  const PortableOperators portable(cpu);
  CHECK(torch::arange(10).sum().item<int64_t>() == 45);
  CHECK((torch::arange(10) + torch::arange(10)).equal(2 * torch::arange(10)));
  CHECK(torch::arange(4).pow(2).equal(torch::tensor({0, 1, 4, 9})));
}

TEST_CASE("other floating-point types are refused by name") {
  const PortableOperators portable(cpu);
  const Tensor x = torch::zeros({3, 3}, torch::kDouble), h = torch::zeros({3, 3}, torch::kBFloat16);
  CHECK(message_of([&] { x.mm(x); }) == "the portable kernels do not cover aten::mm on Double");
  CHECK(message_of([&] { h.exp(); }) == "the portable kernels do not cover aten::exp on BFloat16");
  CHECK(message_of([&] { x.sum(); }) == "the portable kernels do not cover aten::sum on Double");
  CHECK(message_of([] {
          at::conv_transpose2d(torch::zeros({1, 2, 3, 3}), torch::zeros({2, 1, 2, 2}));
        }).find("transposed") != std::string::npos);
}

TEST_CASE("LibTorch's own kernels are back afterwards") {
  const auto draw_numbers = [] {
    torch::manual_seed(1);
    return torch::rand({20});
  };
  const Tensor before = draw_numbers();
  {
    const PortableOperators portable(cpu);
    CHECK_FALSE(draw_numbers().equal(before));
    CHECK(portable.names().contains("aten::mm"));
  }
  CHECK(draw_numbers().equal(before));
}

TEST_CASE("kernels get as many threads as LibTorch has, and none inside a parallel region") {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  struct Seen {
    std::mutex lock;
    std::set<std::thread::id> threads;
  } seen;
  const kernels::Execution execution = execution_on(torch::zeros({1}));
  CHECK(execution.threads == 2);
  execution.run(
      2,
      [](void* context, int) {
        auto& all = *static_cast<Seen*>(context);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        const std::lock_guard lock(all.lock);
        all.threads.insert(std::this_thread::get_id());
      },
      &seen);
  CHECK(seen.threads.size() == 2);
  at::set_num_threads(before);
}

}  // namespace
}  // namespace estrain::operators
