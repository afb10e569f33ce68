// The portable elementwise functions, reductions, softmax, loss and random numbers against LibTorch's, in one process,
// alternating.
//
//   arithmetic [--isa avx512|avx2|fma128|baseline] [--threads N] [--rounds N] [--filter TEXT] [--json] [--accuracy]
//
// ratio = LibTorch's time / ours, of the fastest rounds (and of the medians): above 1 we are faster. LibTorch's own
// instruction set is limited from outside: ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 for --isa avx2.
// --accuracy: instead, the largest error of both in units of the last place, over floats of every size up to 20 and to
// the ends of the range.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "kernels/portable/cross_entropy.h"
#include "kernels/portable/elementwise.h"
#include "kernels/portable/random.h"
#include "kernels/portable/reduction.h"
#include "kernels/portable/softmax.h"
#include "scripts/benchmarks/kernels/side_by_side.h"

namespace {

using namespace estrain::kernels;
using namespace estrain::kernels::portable;
using namespace estrain::benchmarks;

using at::Tensor;

const float* in(const Tensor& x) { return x.const_data_ptr<float>(); }
float* to(const Tensor& x) { return x.mutable_data_ptr<float>(); }

double exact_sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

struct Function {
  const char* name;
  Unary ours;
  void (*theirs)(Tensor& out, const Tensor& x);
  double (*exact)(double x);
};
const Function functions[] = {
    {"exp", Unary::exp, [](Tensor& y, const Tensor& x) { at::exp_out(y, x); }, std::exp},
    {"log", Unary::log, [](Tensor& y, const Tensor& x) { at::log_out(y, x); }, std::log},
    {"log1p", Unary::log1p, [](Tensor& y, const Tensor& x) { at::log1p_out(y, x); }, std::log1p},
    {"expm1", Unary::expm1, [](Tensor& y, const Tensor& x) { at::expm1_out(y, x); }, std::expm1},
    {"sqrt", Unary::sqrt, [](Tensor& y, const Tensor& x) { at::sqrt_out(y, x); }, std::sqrt},
    {"rsqrt", Unary::rsqrt, [](Tensor& y, const Tensor& x) { at::rsqrt_out(y, x); },
     [](double x) { return 1 / std::sqrt(x); }},
    {"tanh", Unary::tanh, [](Tensor& y, const Tensor& x) { at::tanh_out(y, x); }, std::tanh},
    {"sigmoid", Unary::sigmoid, [](Tensor& y, const Tensor& x) { at::sigmoid_out(y, x); }, exact_sigmoid},
    {"silu", Unary::silu, [](Tensor& y, const Tensor& x) { at::silu_out(y, x); },
     [](double x) { return x * exact_sigmoid(x); }},
    {"gelu", Unary::gelu, [](Tensor& y, const Tensor& x) { at::gelu_out(y, x); },
     [](double x) { return x * 0.5 * std::erfc(-x * 0.70710678118654752); }},
    {"gelu_tanh", Unary::gelu_tanh, [](Tensor& y, const Tensor& x) { at::gelu_out(y, x, "tanh"); },
     [](double x) { return x * exact_sigmoid(2 * 0.79788456080286536 * (x + 0.044715 * x * x * x)); }},
    {"erf", Unary::erf, [](Tensor& y, const Tensor& x) { at::erf_out(y, x); }, std::erf},
    {"sin", Unary::sin, [](Tensor& y, const Tensor& x) { at::sin_out(y, x); }, std::sin},
    {"cos", Unary::cos, [](Tensor& y, const Tensor& x) { at::cos_out(y, x); }, std::cos},
};

class Rows {
 public:
  explicit Rows(const Options& options) : options_(options), execution_(execution_of(options)) {}

  template <typename Ours, typename Theirs>
  void add(const std::string& name, Ours ours, Theirs theirs) {
    if (name.find(options_.filter) == std::string::npos) return;
    rows_.push_back(alternate(
        name, options_, [&] { ours(execution_); }, theirs));
  }
  const std::vector<Row>& all() const { return rows_; }

 private:
  const Options& options_;
  Execution execution_;
  std::vector<Row> rows_;
};

void measure_elementwise(Rows& rows, int64_t n) {
  const std::string size = " " + std::to_string(n);
  const Tensor x = at::randn({n}), g = at::randn({n}), c = at::randn({n}) + 5;
  Tensor y = at::empty({n});
  for (const Function& f : functions) {
    const Tensor input = f.ours == Unary::log || f.ours == Unary::sqrt || f.ours == Unary::rsqrt ? x.abs() : x;
    rows.add(
        f.name + size, [&](const Execution& e) { unary(f.ours, to(y), in(input), n, e); }, [&] { f.theirs(y, input); });
  }
  const auto backward = [&](const char* name, UnaryBackward ours, auto theirs) {
    rows.add(
        name + size, [&](const Execution& e) { unary_backward(ours, to(y), in(g), in(x), n, e); }, theirs);
  };
  backward("tanh backward", UnaryBackward::tanh, [&] { at::tanh_backward_out(y, g, x); });
  backward("sigmoid backward", UnaryBackward::sigmoid, [&] { at::sigmoid_backward_out(y, g, x); });
  backward("silu backward", UnaryBackward::silu, [&] { at::silu_backward_out(y, g, x); });
  backward("gelu backward", UnaryBackward::gelu, [&] { at::gelu_backward_out(y, g, x); });
  backward("gelu_tanh backward", UnaryBackward::gelu_tanh, [&] { at::gelu_backward_out(y, g, x, "tanh"); });
  rows.add(
      "softplus" + size, [&](const Execution& e) { softplus(to(y), in(x), n, {}, e); },
      [&] { at::softplus_out(y, x); });
  rows.add(
      "elu" + size, [&](const Execution& e) { elu(to(y), in(x), n, {}, e); }, [&] { at::elu_out(y, x); });
  const Tensor size_of_x = x.abs();
  rows.add(
      "pow 0.3" + size, [&](const Execution& e) { power(to(y), in(size_of_x), 0.3f, n, e); },
      [&] { at::pow_out(y, size_of_x, 0.3); });
  rows.add(
      "pow of tensors" + size, [&](const Execution& e) { power(to(y), in(size_of_x), in(g), n, e); },
      [&] { at::pow_out(y, size_of_x, g); });
  rows.add(
      "add alpha" + size, [&](const Execution& e) { add_scaled(to(y), in(x), in(g), 0.3f, n, e); },
      [&] { at::add_out(y, x, g, 0.3); });
  rows.add(
      "addcmul" + size, [&](const Execution& e) { add_product(to(y), in(x), in(g), in(c), 0.3f, n, e); },
      [&] { at::addcmul_out(y, x, g, c, 0.3); });
  rows.add(
      "addcdiv" + size, [&](const Execution& e) { add_quotient(to(y), in(x), in(g), in(c), 0.3f, n, e); },
      [&] { at::addcdiv_out(y, x, g, c, 0.3); });
  rows.add(
      "lerp" + size, [&](const Execution& e) { lerp(to(y), in(x), in(g), 0.3f, n, e); },
      [&] { at::lerp_out(y, x, g, 0.3); });
}

void measure_random(Rows& rows, int64_t n) {
  const std::string size = " " + std::to_string(n);
  const Tensor x = at::randn({n}), mask = at::empty({n}, at::kBool);
  Tensor y = at::empty({n});
  rows.add(
      "uniform" + size, [&](const Execution& e) { uniform(to(y), n, 0, 1, {}, e); }, [&] { y.uniform_(); });
  rows.add(
      "normal" + size, [&](const Execution& e) { normal(to(y), n, 0, 1, {}, e); }, [&] { y.normal_(); });
  rows.add(
      "bernoulli" + size, [&](const Execution& e) { bernoulli(to(y), n, 0.3f, {}, e); }, [&] { y.bernoulli_(0.3); });
  rows.add(
      "exponential" + size, [&](const Execution& e) { exponential(to(y), n, 1, {}, e); }, [&] { y.exponential_(); });
  rows.add(
      "dropout" + size,
      [&](const Execution& e) {
        const Tensor out = at::empty({n}), kept = at::empty({n}, at::kBool);
        dropout(to(out), kept.mutable_data_ptr<bool>(), in(x), n, 0.1, {}, e);
      },
      [&] { at::native_dropout(x, 0.1, true); });
  rows.add(
      "dropout backward" + size,
      [&](const Execution& e) {
        const Tensor out = at::empty({n});
        dropout_backward(to(out), in(x), mask.const_data_ptr<bool>(), n, 1.1f, e);
      },
      [&] { at::native_dropout_backward(x, mask, 1.1); });
  const Tensor order = at::empty({n}, at::kLong);
  rows.add(
      "permutation" + size, [&](const Execution& e) { permutation(order.mutable_data_ptr<int64_t>(), n, {}, e); },
      [&] { at::randperm(n, at::kLong); });
}

void measure_reductions(Rows& rows, const Reduced& s) {
  const std::string size =
      " (" + std::to_string(s.outer) + "," + std::to_string(s.reduced) + "," + std::to_string(s.inner) + ")";
  const Tensor x = s.inner == 1 ? at::randn({s.outer, s.reduced}) : at::randn({s.outer, s.reduced, s.inner});
  Tensor y = s.inner == 1 ? at::empty({s.outer}) : at::empty({s.outer, s.inner});
  rows.add(
      "sum" + size, [&](const Execution& e) { sum(to(y), in(x), s, e); }, [&] { at::sum_out(y, x, 1); });
  rows.add(
      "mean" + size, [&](const Execution& e) { mean(to(y), in(x), s, e); }, [&] { at::mean_out(y, x, 1); });
  rows.add(
      "norm" + size, [&](const Execution& e) { l2_norm(to(y), in(x), s, e); },
      [&] { at::linalg_vector_norm_out(y, x, 2, at::IntArrayRef{1}); });
  rows.add(
      "variance" + size, [&](const Execution& e) { variance(to(y), nullptr, in(x), s, {}, e); },
      [&] { at::var_out(y, x, at::IntArrayRef{1}, true); });
}

void measure_softmax(Rows& rows, const SoftmaxShape& s) {
  const std::string size =
      " (" + std::to_string(s.outer) + "," + std::to_string(s.dim) + "," + std::to_string(s.inner) + ")";
  const Tensor x = s.inner == 1 ? at::randn({s.outer, s.dim}) : at::randn({s.outer, s.dim, s.inner});
  const Tensor g = at::randn_like(x);
  const Tensor result = at::softmax(x, 1), logarithm = at::log_softmax(x, 1);
  Tensor y = at::empty_like(x);
  rows.add(
      "softmax" + size, [&](const Execution& e) { softmax(to(y), in(x), s, e); },
      [&] { at::_softmax_out(y, x, 1, false); });
  rows.add(
      "log_softmax" + size, [&](const Execution& e) { log_softmax(to(y), in(x), s, e); },
      [&] { at::_log_softmax_out(y, x, 1, false); });
  rows.add(
      "softmax backward" + size, [&](const Execution& e) { softmax_backward(to(y), in(g), in(result), s, e); },
      [&] { at::_softmax_backward_data_out(y, g, result, 1, at::kFloat); });
  rows.add(
      "log_softmax backward" + size,
      [&](const Execution& e) { log_softmax_backward(to(y), in(g), in(logarithm), s, e); },
      [&] { at::_log_softmax_backward_data_out(y, g, logarithm, 1, at::kFloat); });
}

void measure_loss(Rows& rows, int64_t n, int64_t classes) {
  const std::string size = " (" + std::to_string(n) + "," + std::to_string(classes) + ")";
  const Tensor x = at::randn({n, classes}), target = at::randint(classes, {n}, at::kLong);
  Tensor y = at::empty({}), weight = at::empty({}), back = at::empty_like(x);
  const Tensor g = at::ones({});
  const NllLoss loss = {.rows = n, .classes = classes, .targets = target.const_data_ptr<int64_t>()};
  rows.add(
      "nll_loss" + size, [&](const Execution& e) { nll_loss(to(y), to(weight), in(x), loss, e); },
      [&] { at::nll_loss_forward_out(y, weight, x, target, {}, at::Reduction::Mean, -100); });
  rows.add(
      "nll_loss backward" + size,
      [&](const Execution& e) { nll_loss_backward(to(back), in(g), static_cast<float>(n), loss, e); },
      [&] { at::nll_loss_backward_out(back, g, x, target, {}, at::Reduction::Mean, -100, weight); });
}

// Distance in units of the exact value's last place.
double ulps_off(float y, double exact) {
  if (y != y || exact != exact) return (y != y) == (exact != exact) ? 0 : 1e9;
  if (static_cast<float>(exact) == y) return 0;
  if (std::isinf(y)) return std::abs(exact) > 3.4028234e38 ? 1 : 1e9;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(y - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Error {
  double most = 0, squares = 0;
  float at = 0;
};
Error error_of(const Function& f, const Tensor& x, const Tensor& y) {
  Error error;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double ulps = ulps_off(in(y)[i], f.exact(in(x)[i]));
    error.squares += ulps * ulps / static_cast<double>(x.numel());
    if (ulps > error.most) error.most = ulps, error.at = in(x)[i];
  }
  return error;
}

void measure_accuracy(const Options& options) {
  std::vector<float> dense, wild;
  for (int i = -2'000'000; i < 2'000'000; ++i) dense.push_back(static_cast<float>(i) * 5e-6f);
  for (uint64_t word = 0; word < uint64_t{1} << 32; word += 509) {
    const uint32_t bits = static_cast<uint32_t>(word);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    wild.push_back(value);
  }
  for (auto* values : {&dense, &wild}) {
    std::printf("%-10s  ours: max ulp, root mean square, at   LibTorch's: (%s)\n", "function",
                values == &dense ? "|x| <= 10" : "every size");
    const Tensor x = at::from_blob(values->data(), {static_cast<int64_t>(values->size())}, at::kFloat);
    for (const Function& f : functions) {
      Tensor y = at::empty_like(x), z = at::empty_like(x);
      unary(f.ours, to(y), in(x), x.numel(), execution_of(options));
      f.theirs(z, x);
      const Error ours = error_of(f, x, y), theirs = error_of(f, x, z);
      std::printf("%-10s %10.4g %8.3f %14.7g   %10.4g %8.3g %14.7g\n", f.name, ours.most, std::sqrt(ours.squares),
                  static_cast<double>(ours.at), theirs.most, std::sqrt(theirs.squares), static_cast<double>(theirs.at));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const c10::InferenceMode no_grad;
  at::set_num_threads(options.threads);
  Pool threads(options.threads);
  pool = &threads;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--accuracy") == 0) {
      measure_accuracy(options);
      return 0;
    }
  }
  Rows rows(options);
  for (const int64_t n : {4096, 131072, 2097152}) measure_elementwise(rows, n);
  for (const int64_t n : {4096, 131072, 2097152}) measure_random(rows, n);
  for (const Reduced& shape : {Reduced{1, 4096, 1},
                               {1, 1'000'000, 1},
                               {4096, 49, 1},
                               {1024, 768, 1},
                               {1, 512, 768},
                               {1, 4096, 10},
                               {32, 64, 3136}}) {
    measure_reductions(rows, shape);
  }
  for (const SoftmaxShape& shape : {SoftmaxShape{128, 10, 1},
                                    {512, 65, 1},
                                    {4096, 64, 1},
                                    {1024, 256, 1},
                                    {128, 1000, 1},
                                    {8, 50257, 1},
                                    {8, 21, 4096}}) {
    measure_softmax(rows, shape);
  }
  measure_loss(rows, 128, 10);
  measure_loss(rows, 4096, 65);
  print("arithmetic", rows.all(), options);
}
