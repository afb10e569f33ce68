#include "tests/core/engine/operators/comparison_cases.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Reduction.h>
#include <torch/types.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

namespace estrain::operators::comparing {
namespace {

using c10::IValue;
using torch::Tensor;
using Sizes = std::vector<int64_t>;
using Arguments = std::vector<IValue>;
using Draw = std::function<Tensor(const Sizes&)>;

const IValue none;

at::Generator& generator() {
  static at::Generator the_generator = at::detail::createCPUGenerator(11);
  return the_generator;
}

Tensor normal(const Sizes& sizes) { return torch::randn(sizes, generator()); }
Tensor positive(const Sizes& sizes) { return torch::rand(sizes, generator()) * 2 + 0.1; }
Tensor fraction(const Sizes& sizes) { return torch::rand(sizes, generator()) * 0.9 + 0.05; }
Tensor below(const Sizes& sizes, int64_t bound) { return torch::randint(0, bound, sizes, generator(), torch::kLong); }
Tensor whole(const Sizes& sizes) { return below(sizes, 9) - 4; }
Tensor truths(const Sizes& sizes) { return below(sizes, 3).ne(1); }

// The same values, the dimensions in reversed order in memory.
Tensor turned(const Tensor& x) {
  Sizes order;
  for (int64_t d = x.dim() - 1; d >= 0; --d) order.push_back(d);
  return x.permute(order).contiguous().permute(order);
}
// The same values, every second element of a larger tensor.
Tensor sliced(const Tensor& x) {
  if (x.dim() == 0) return x;
  Sizes sizes = x.sizes().vec();
  sizes.back() = 2 * sizes.back() + 1;
  const Tensor part = torch::zeros(sizes, x.options()).slice(-1, 1, sizes.back(), 2);
  part.copy_(x);
  return part;
}
Tensor channels_last(const Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

struct Sheet {
  std::string what;
  Tensor x;
};

std::vector<Sheet> sheets(const Draw& draw) {
  return {{"no dimension", draw({})},
          {"one element", draw({1})},
          {"no element", draw({0})},
          {"no element of three dimensions", draw({2, 0, 3})},
          {"contiguous", draw({3, 4})},
          {"long", draw({3, 400})},
          {"turned", turned(draw({3, 4, 5}))},
          {"sliced", sliced(draw({3, 4}))},
          {"sliced and turned", sliced(draw({4, 3})).t()},
          {"expanded", draw({1, 4}).expand({3, 4})},
          {"expanded within", draw({3, 1}).expand({3, 4})},
          {"expanded everywhere", draw({1, 1}).expand({3, 4})},
          {"a size of one", turned(draw({3, 1, 5}))},
          {"channels last", channels_last(draw({2, 3, 4, 5}))},
          {"channels last of one channel", channels_last(draw({2, 1, 4, 5}))},
          {"two dimensions exchanged", draw({2, 4, 3, 5}).transpose(1, 2)}};
}

struct Pair {
  std::string what;
  Tensor a, b;
};

std::vector<Pair> pairs(const Draw& a, const Draw& b) {
  std::vector<Pair> all;
  const std::vector<Sheet> as = sheets(a), bs = sheets(b);
  for (size_t i = 0; i < as.size(); ++i) all.push_back({as[i].what, as[i].x, bs[i].x});
  const auto add = [&](const char* what, Tensor x, Tensor y) { all.push_back({what, std::move(x), std::move(y)}); };
  add("broadcast", a({3, 1}), b({4}));
  add("broadcast of more dimensions", a({4}), b({2, 3, 4}));
  add("a number beside a tensor", a({}), b({3, 4}));
  add("a tensor beside a number", turned(a({3, 4})), b({}));
  add("broadcast to nothing", a({2, 0, 3}), b({3}));
  add("one element to nothing", a({0}), b({1}));
  add("turned beside contiguous", turned(a({3, 4, 5})), b({3, 4, 5}));
  add("contiguous beside turned", a({3, 4, 5}), turned(b({3, 4, 5})));
  add("sliced beside turned", sliced(a({3, 4, 5})), turned(b({3, 4, 5})));
  add("expanded beside turned", a({1, 4, 5}).expand({3, 4, 5}), turned(b({3, 4, 5})));
  add("channels last beside a channel's", channels_last(a({2, 3, 4, 5})), b({3, 1, 1}));
  add("a channel's beside channels last", a({1, 3, 1, 1}), channels_last(b({2, 3, 4, 5})));
  return all;
}

Tensor wrapped(double value) {
  Tensor number = torch::scalar_tensor(value, torch::kDouble);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}
Tensor wrapped(int64_t value) {
  Tensor number = torch::scalar_tensor(value, torch::kLong);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

class Table {
 public:
  Comparison& add(const std::string& name, std::string what, Arguments arguments) {
    all_.push_back({"aten::" + name, std::move(what), std::move(arguments)});
    return all_.back();
  }
  std::vector<Comparison> all_;
};

Arguments joined(Arguments first, const Arguments& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

// ---- one element at a time

void unary(Table& table, const std::string& name, const Draw& draw, const Arguments& rest = {}) {
  for (const Sheet& sheet : sheets(draw)) table.add(name, sheet.what, joined({sheet.x}, rest));
}

void binary(Table& table, const std::string& name, const Draw& a, const Draw& b, const Arguments& rest = {}) {
  for (const Pair& pair : pairs(a, b)) table.add(name, pair.what, joined({pair.a, pair.b}, rest));
}

void add_functions(Table& table) {
  for (const char* name :
       {"exp", "expm1", "tanh", "sigmoid", "silu", "erf", "sin", "cos", "hardsigmoid", "hardswish", "mish"})
    unary(table, name, normal);
  for (const char* name : {"tan", "atan", "sinh", "cosh", "asinh"}) unary(table, name, normal);
  for (const char* name : {"asin", "acos", "atanh"}) {
    unary(table, name, fraction);
    table.add(name, "ends of the domain", {torch::tensor({-1.0f, 1.0f, -0.0f, 1.5f, -2.0f})});
  }
  unary(table, "acosh", [](const Sizes& sizes) { return positive(sizes) + 1; });
  table.add("acosh", "ends of the domain", {torch::tensor({1.0f, 0.5f, -3.0f, -1e10f})});
  for (const char* name : {"tan", "atan", "sinh", "cosh", "asinh", "acosh"})
    table.add(name, "whole numbers", {below({3, 4}, 4) + 1});
  for (const char* name : {"asin", "acos", "atanh"}) table.add(name, "whole numbers", {truths({5})});
  for (const char* name : {"log", "log1p", "sqrt", "rsqrt", "log2"}) unary(table, name, positive);
  for (const char* name : {"exp", "expm1", "tanh", "sigmoid", "erf", "sin", "cos"}) {
    table.add(name, "whole numbers", {turned(whole({3, 4}))});
    table.add(name, "truths", {truths({5})});
  }
  for (const char* name : {"log", "log1p", "sqrt", "rsqrt", "log2"})
    table.add(name, "whole numbers", {below({3, 4}, 9) + 1});
  for (const char* name : {"silu", "hardsigmoid", "hardswish", "mish", "gelu"})
    table.add(name, "whole numbers",
              name == std::string("gelu") ? Arguments{whole({3}), "none"} : Arguments{whole({3})});
  for (const char* name : {"tanh_backward", "sigmoid_backward"}) binary(table, name, normal, fraction);
  for (const char* name : {"silu_backward", "hardsigmoid_backward", "hardswish_backward", "mish_backward"})
    binary(table, name, normal, normal);
  for (const char* how : {"none", "tanh"}) {
    unary(table, "gelu", normal, {how});
    for (const Pair& pair : pairs(normal, normal))  // LibTorch's own does not broadcast
      if (pair.a.sizes() == pair.b.sizes()) table.add("gelu_backward", pair.what, {pair.a, pair.b, how});
  }
  unary(table, "softplus", normal, {1.5, 2.0});
  binary(table, "softplus_backward", normal, normal, {1.5, 2.0});
  unary(table, "elu", normal, {1.5, 0.5, 2.0});
  for (const bool is_result : {false, true}) {
    for (const Pair& pair : pairs(normal, normal))
      table.add("elu_backward", pair.what, {pair.a, 1.5, 0.5, 2.0, is_result, pair.b});
  }
  const size_t first = table.all_.size();
  unary(table, "log_sigmoid_forward", normal);
  for (size_t i = first; i < table.all_.size(); ++i) table.all_[i].scratch = {1, 3};
  for (const Pair& pair : pairs(normal, normal)) {
    if (pair.a.sizes() != pair.b.sizes()) continue;
    const Tensor buffer = (-pair.b.abs()).exp();
    table.add("log_sigmoid_backward", pair.what, {pair.a, pair.b, buffer});
  }
  for (const Sheet& sheet : sheets(normal)) {
    if (sheet.x.dim() == 0) {
      table.add("glu", sheet.what, {sheet.x, -1});
      continue;
    }
    const Tensor twice = torch::cat({sheet.x, sheet.x}, 0);
    table.add("glu", sheet.what, {twice, 0});
    table.add("glu", sheet.what + ", turned", {turned(twice), -twice.dim()});
    table.add("glu_backward", sheet.what, {sheet.x, twice, 0});
    table.add("glu_backward", sheet.what + ", turned", {sheet.x, turned(twice), 0});
  }
  table.add("glu", "of an odd size", {normal({3, 4}), 0});
}

void add_arithmetic(Table& table) {
  for (const char* name : {"add.Tensor", "sub.Tensor", "rsub.Tensor"}) {
    for (const double factor : {1.0, 0.3}) {
      binary(table, name, normal, normal, {factor});
      table.add(name, "a number of the program", {turned(normal({3, 4})), wrapped(0.7), factor});
      table.add(name, "whole numbers beside it", {normal({3, 4}), whole({3, 4}), factor});
      table.add(name, "whole numbers before it", {whole({3, 4}), turned(normal({3, 4})), factor});
      table.add(name, "whole numbers and a number of the program", {whole({3, 4}), wrapped(0.5), factor});
    }
    table.add(name, "whole numbers", {whole({3, 4}), turned(whole({3, 4})), 3});
    table.add(name, "whole numbers times a fraction", {whole({3, 4}), whole({3, 4}), 0.5});
  }
  table.add("add.Tensor", "truths", {truths({3, 4}), truths({3, 4}), 1});
  for (const char* name : {"addcmul", "addcdiv"}) {
    for (const Pair& pair : pairs(normal, positive)) {
      table.add(name, pair.what, {pair.a, pair.a, pair.b, 0.3});
      table.add(name, pair.what + ", the last a number", {pair.a, pair.b, positive({}), 0.3});
      table.add(name, pair.what + ", the first a number", {normal({}), pair.a, pair.b, 1});
    }
  }
  binary(table, "lerp.Scalar", normal, normal, {0.3});
  binary(table, "lerp.Scalar", normal, normal, {0.8});
  for (const Pair& pair : pairs(normal, normal)) {
    table.add("lerp.Tensor", pair.what, {pair.a, pair.b, fraction(pair.b.sizes().vec())});
    table.add("lerp.Tensor", pair.what + ", one weight", {pair.a, pair.b, fraction({})});
  }
  for (const double exponent : {2.0, 3.0, -1.0, 0.5, -0.5, 1.7, 0.0, 1.0}) {
    unary(table, "pow.Tensor_Scalar", positive, {exponent});
    if (exponent == std::floor(exponent)) unary(table, "pow.Tensor_Scalar", normal, {exponent});
  }
  table.add("pow.Tensor_Scalar", "whole numbers", {whole({3, 4}), 3});
  table.add("pow.Tensor_Scalar", "whole numbers to a fraction", {below({3, 4}, 5) + 1, 1.5});
  binary(table, "pow.Tensor_Tensor", positive, normal);
  table.add("pow.Tensor_Tensor", "to whole numbers", {turned(normal({3, 4})), whole({3, 4})});
  table.add("pow.Tensor_Tensor", "whole numbers", {whole({3, 4}), below({3, 4}, 4)});
  table.add("pow.Tensor_Tensor", "of a number of the program", {positive({3, 4}), wrapped(1.5)});
  for (const double base : {1.7, 1.0, 2.0})
    for (const Sheet& sheet : sheets(normal)) table.add("pow.Scalar", sheet.what, {base, sheet.x});
  table.add("pow.Scalar", "to whole numbers", {1.7, whole({3, 4})});
  table.add("pow.Scalar", "whole numbers", {2, below({3, 4}, 4)});
  binary(table, "xlogy.Tensor", normal, positive);
  const Tensor zeros = torch::zeros({4});
  const auto special = torch::tensor({0.0f, -1.0f, std::numeric_limits<float>::infinity(), std::nanf("")});
  table.add("xlogy.Tensor", "of zero", {zeros, special});
  table.add("xlogy.Tensor", "whole numbers", {whole({3, 4}), below({3, 4}, 5) + 1});
  binary(table, "atan2", normal, normal);
  const auto sides = torch::tensor({0.0f, -0.0f, 1.0f, -1.0f, std::numeric_limits<float>::infinity(),
                                    -std::numeric_limits<float>::infinity(), std::nanf("")});
  table.add("atan2", "all sides", {sides.view({7, 1}), sides});
  table.add("atan2", "whole numbers", {whole({3, 4}), whole({3, 4})});
  table.add("atan2", "of a number of the program", {normal({3, 4}), wrapped(1.5)});
  binary(table, "logaddexp", normal, normal);
  const auto infinite =
      torch::tensor({std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), 1.0f});
  table.add("logaddexp", "infinities", {infinite, infinite});
  table.add("logaddexp", "infinities beside numbers", {infinite, normal({3})});
}

void add_whole_numbers(Table& table) {
  const Draw divisor = [](const Sizes& sizes) { return below(sizes, 4) + 1; };
  const Draw fractions = [](const Sizes& sizes) {
    return torch::where(truths(sizes), fraction(sizes) * 3, fraction(sizes) * -3);
  };
  const Draw dividend = [](const Sizes& sizes) { return normal(sizes) * 10; };
  for (const char* name : {"floor_divide", "remainder.Tensor", "fmod.Tensor"}) {
    binary(table, name, whole, divisor);
    binary(table, name, dividend, fractions);
    table.add(name, "a number of the program", {turned(whole({3, 4})), wrapped(int64_t{3})});
    table.add(name, "a fraction of the program", {turned(dividend({3, 4})), wrapped(0.7)});
    table.add(name, "whole numbers and a fraction of the program", {whole({3, 4}), wrapped(0.7)});
    table.add(name, "zero", {dividend({3, 4}), torch::zeros({4})});
    table.add(name, "infinity", {dividend({3, 4}), torch::full({4}, std::numeric_limits<float>::infinity())});
    table.add(name, "of infinity", {torch::full({4}, -std::numeric_limits<float>::infinity()), fractions({4})});
    table.add(name, "multiples", {torch::arange(-6, 7).to(torch::kFloat) * 0.1f, torch::full({13}, 0.1f)});
    table.add(
        name, "far apart",
        {torch::tensor({1e30f, -1e30f, 1e-30f, -1e-30f, 1e38f}), torch::tensor({3e-5f, 7.0f, 1e30f, 1e30f, 1e-38f})});
  }
  for (const char* mode : {"floor", "trunc"}) {
    binary(table, "div.Tensor_mode", whole, divisor, {mode});
    binary(table, "div.Tensor_mode", dividend, fractions, {mode});
    table.add("div.Tensor_mode", "a number of the program", {turned(dividend({3, 4})), wrapped(0.7), mode});
  }
  table.add("div.Tensor_mode", "none", {normal({3, 4}), positive({3, 4}), none});
}

// ---- sums

Comparison& loosely(Comparison& comparison) {
  comparison.tolerance = 4e-6;
  return comparison;
}

void add_reductions(Table& table) {
  for (const Sheet& sheet : sheets(normal)) {
    for (const char* name : {"sum", "mean"}) table.add(name, sheet.what, {sheet.x, none});
    for (const bool keep : {false, true}) {
      std::vector<std::pair<std::string, IValue>> dims = {{"all", none}, {"none given", IValue(Sizes{})}};
      if (sheet.x.dim() == 0) dims.emplace_back("the only one", IValue(Sizes{0}));
      for (int64_t d = 0; d < sheet.x.dim(); ++d) dims.emplace_back("dimension " + std::to_string(d), IValue(Sizes{d}));
      if (sheet.x.dim() > 1) dims.emplace_back("the ends", IValue(Sizes{0, -1}));
      for (const auto& [which, dim] : dims) {
        const std::string what = sheet.what + ", " + which + (keep ? ", kept" : "");
        loosely(table.add("sum.dim_IntList", what, {sheet.x, dim, keep, none}));
        loosely(table.add("mean.dim", what, {sheet.x, dim, keep, none}));
        for (const double order : {2.0, 1.0, 3.0, 0.0, 0.5, std::numeric_limits<double>::infinity(),
                                   -std::numeric_limits<double>::infinity()})
          loosely(table.add("linalg_vector_norm", what + ", order " + std::to_string(order),
                            {sheet.x, order, dim, keep, none}));
        for (const IValue& correction : {IValue(), IValue(0), IValue(1)}) {
          for (const char* name : {"var.correction", "std.correction", "var_mean.correction", "std_mean.correction"})
            loosely(table.add(name, what, {sheet.x, dim, correction, keep}));
        }
        if (dim.isNone()) continue;
        loosely(table.add("norm.ScalarOpt_dim", what, {sheet.x, none, dim, keep}));
        loosely(table.add("norm.ScalarOpt_dim", what + ", order 1", {sheet.x, 1.0, dim, keep}));
        loosely(table.add("norm.ScalarOpt_dim_dtype", what, {sheet.x, 2.0, dim, keep, torch::kFloat}));
      }
    }
  }
  for (const char* name : {"sum", "mean", "prod"}) {
    table.add(name, "whole numbers", {whole({3, 4}), none});
    table.add(name, "whole numbers as fractions", {turned(whole({3, 4})), torch::kFloat});
    table.add(name, "truths", {truths({3, 4}), none});
    table.add(name, "fractions as whole numbers", {normal({3, 4}), torch::kLong});
  }
  table.add("sum.dim_IntList", "int", {whole({3, 4}).to(torch::kInt), Sizes{0}, false, none});
  table.add("sum.dim_IntList", "truths", {truths({3, 4}), Sizes{0}, false, none});
  table.add("sum.dim_IntList", "a dimension twice", {normal({3, 4}), Sizes{0, 0}, false, none});
  table.add("sum.dim_IntList", "no such dimension", {normal({3, 4}), Sizes{2}, false, none});
}

void add_running(Table& table) {
  for (const Sheet& sheet : sheets(positive)) {
    for (int64_t d = 0; d < std::max<int64_t>(sheet.x.dim(), 1); ++d) {
      const std::string what = sheet.what + ", dimension " + std::to_string(d);
      for (const char* name : {"cumsum", "cumprod"}) {
        table.add(name, what, {sheet.x, d, none}).tolerance = 1e-4;
        table.add(name, what + " from the end", {sheet.x, d - std::max<int64_t>(sheet.x.dim(), 1), none}).tolerance =
            1e-4;
      }
      for (const bool keep : {false, true})
        table.add("prod.dim_int", what + (keep ? ", kept" : ""), {sheet.x, d, keep, none}).tolerance = 1e-4;
    }
    table.add("prod", sheet.what, {sheet.x, none}).tolerance = 1e-4;
  }
  for (const char* name : {"cumsum", "cumprod"}) {
    for (const auto type : {torch::kInt, torch::kLong, torch::kBool, torch::kByte, torch::kShort}) {
      table.add(name, "whole numbers", {below({3, 4}, 3).to(type), 1, none});
      table.add(name, "whole numbers as int", {below({3, 4}, 3).to(type), 1, torch::kInt});
      table.add(name, "whole numbers, turned", {turned(below({3, 4}, 3).to(type)), 0, torch::kLong});
      table.add(name, "whole numbers as fractions", {below({3, 4}, 3).to(type), 1, torch::kFloat});
    }
    table.add(name, "fractions as whole numbers", {normal({3, 4}) * 5, 1, torch::kLong});
    table.add(name, "no such dimension", {normal({3, 4}), 2, none});
  }
  table.add("prod.dim_int", "int", {below({3, 4}, 3).to(torch::kInt), 1, false, none});
  table.add("prod.dim_int", "fractions as whole numbers", {normal({3, 4}) * 5, 1, false, torch::kLong});
}

void add_sorting(Table& table) {
  for (const Sheet& sheet : sheets(normal)) {
    for (int64_t d = 0; d < std::max<int64_t>(sheet.x.dim(), 1); ++d) {
      for (const bool descending : {false, true}) table.add("sort.stable", sheet.what, {sheet.x, true, d, descending});
      const int64_t size = sheet.x.dim() == 0 ? 1 : sheet.x.size(d);
      const bool has_equals = sheet.what.starts_with("expanded");  // LibTorch leaves their order open
      if (!has_equals)
        for (const bool largest : {false, true}) table.add("topk", sheet.what, {sheet.x, size / 2, d, largest, true});
      if (!has_equals) table.add("topk", sheet.what + ", all", {sheet.x, size, d, true, true});
    }
  }
  table.add("sort.stable", "whole numbers", {whole({30}), true, 0, false});
  table.add("topk", "too many", {normal({3, 4}), 5, 1, true, true});
  table.add("topk", "fewer than none", {normal({3, 4}), -1, 1, true, true});
}

// ---- products

void add_products(Table& table) {
  struct Matrices {
    std::string what;
    Tensor a, b;
  };
  const std::vector<Matrices> all = {
      {"plain", normal({3, 5}), normal({5, 4})},
      {"one element", normal({1, 1}), normal({1, 1})},
      {"turned", normal({5, 3}).t(), normal({4, 5}).t()},
      {"sliced", sliced(normal({3, 5})), sliced(normal({5, 4}))},
      {"expanded", normal({1, 5}).expand({3, 5}), normal({5, 1}).expand({5, 4})},
      {"a sum of nothing", normal({3, 0}), normal({0, 4})},
      {"no rows", normal({0, 5}), normal({5, 4})},
      {"no columns", normal({3, 5}), normal({5, 0})},
      {"long", normal({3, 700}), normal({700, 4})},
      {"sizes that do not fit", normal({3, 5}), normal({4, 4})},
      {"a vector", normal({5}), normal({5, 4})},
  };
  for (const Matrices& each : all) {
    loosely(table.add("mm", each.what, {each.a, each.b}));
    const int64_t m = each.a.size(0), n = each.b.size(1);
    for (const double beta : {1.0, 0.5, 0.0}) {
      const std::vector<Sheet> addends = {{"a matrix", normal({m, n})},
                                          {"a row", normal({n})},
                                          {"a number", normal({})},
                                          {"a column", normal({m, 1})},
                                          {"turned", turned(normal({m, n}))}};
      for (const Sheet& addend : addends)
        loosely(table.add("addmm", each.what + ", " + addend.what, {addend.x, each.a, each.b, beta, 1.5}));
    }
    if (each.a.dim() < 2) continue;
    const Tensor a = torch::stack({each.a, each.a}), b = torch::stack({each.b, each.b});
    loosely(table.add("bmm", each.what, {a, b}));
    loosely(table.add("bmm", each.what + ", turned", {turned(a), turned(b)}));
    loosely(table.add("bmm", each.what + ", expanded", {each.a.expand({2, m, each.a.size(1)}), b}));
    for (const double beta : {1.0, 0.0}) {
      loosely(table.add("baddbmm", each.what, {normal({2, m, n}), a, b, beta, 1.5}));
      loosely(table.add("baddbmm", each.what + ", broadcast", {normal({m, n}), a, b, beta, 1.5}));
      loosely(table.add("baddbmm", each.what + ", a number", {normal({}), a, b, beta, 1.5}));
    }
    const Tensor x = each.b.size(1) == 0 ? normal({5}) : each.b.select(1, 0);
    loosely(table.add("mv", each.what, {each.a, x}));
    for (const double beta : {1.0, 0.0}) {
      loosely(table.add("addmv", each.what, {normal({m}), each.a, x, beta, 1.5}));
      if (each.a.numel() == 0) continue;  // LibTorch's own gives the sizes of the addend
      loosely(table.add("addmv", each.what + ", one element", {normal({1}), each.a, x, beta, 1.5}));
      loosely(table.add("addmv", each.what + ", a number", {normal({}), each.a, x, beta, 1.5}));
    }
  }
  table.add("addmm", "whole numbers", {whole({3, 4}), whole({3, 5}), whole({5, 4}), 1, 1});
  table.add("mm", "whole numbers", {whole({3, 5}), whole({5, 4})});
  table.add("bmm", "whole numbers", {whole({2, 3, 5}), whole({2, 5, 4})});
  table.add("mv", "whole numbers", {whole({3, 5}), whole({5})});
  table.add("dot", "whole numbers", {whole({5}), whole({5})});
  loosely(table.add("dot", "plain", {normal({700}), normal({700})}));
  loosely(table.add("dot", "one element", {normal({1}), normal({1})}));
  loosely(table.add("dot", "no element", {normal({0}), normal({0})}));
  loosely(table.add("dot", "expanded", {normal({1}).expand({7}), sliced(normal({7}))}));
  table.add("dot", "sizes that do not fit", {normal({3}), normal({4})});
  table.add("dot", "matrices", {normal({3, 4}), normal({3, 4})});
  const auto matmul = [&](const std::string& what, const Tensor& a, const Tensor& b) {
    loosely(table.add("matmul", what, {a, b})).has_gradients = true;
  };
  matmul("vectors", normal({7}), normal({7}));
  matmul("a matrix and a vector", normal({3, 7}), normal({7}));
  matmul("a vector and a matrix", normal({7}), normal({7, 3}));
  matmul("matrices", normal({3, 7}), normal({7, 4}));
  matmul("batches", normal({2, 3, 7}), normal({2, 7, 4}));
  matmul("batches, turned", turned(normal({2, 3, 7})), turned(normal({2, 7, 4})));
  matmul("batches, expanded", normal({1, 3, 7}).expand({2, 3, 7}), normal({2, 7, 4}));
  matmul("batches, sliced", sliced(normal({2, 3, 7})), sliced(normal({2, 7, 4})));
  matmul("batches of batches", normal({2, 5, 3, 7}), normal({2, 5, 4, 7}).transpose(-1, -2));
  matmul("broadcast", normal({2, 1, 3, 7}), normal({5, 7, 4}));
  matmul("a batch and a matrix", normal({2, 3, 7}), normal({7, 4}));
  matmul("a batch and a vector", normal({2, 3, 7}), normal({7}));
  matmul("no batch", normal({0, 3, 7}), normal({0, 7, 4}));
  matmul("a sum of nothing", normal({2, 3, 0}), normal({2, 0, 4}));
  matmul("sizes of one", normal({1, 1, 1}), normal({1, 1, 1}));
  table.add("matmul", "whole numbers", {whole({2, 3, 5}), whole({2, 5, 4})});
  table.add("matmul", "numbers", {normal({}), normal({3})});
  const auto linear = [&](const std::string& what, const Tensor& x, const Tensor& w, const IValue& b) {
    loosely(table.add("linear", what, {x, w, b})).has_gradients = true;
  };
  linear("rows", normal({3, 7}), normal({4, 7}), normal({4}));
  linear("no bias", normal({3, 7}), normal({4, 7}), none);
  linear("one sample", normal({7}), normal({4, 7}), normal({4}));
  linear("a batch of rows", normal({2, 3, 7}), normal({4, 7}), normal({4}));
  linear("turned", turned(normal({2, 3, 7})), turned(normal({4, 7})), sliced(normal({4})));
  linear("expanded", normal({1, 3, 7}).expand({2, 3, 7}), normal({1, 7}).expand({4, 7}), normal({1}).expand({4}));
  linear("one element", normal({1, 1}), normal({1, 1}), normal({1}));
  linear("no rows", normal({0, 7}), normal({4, 7}), normal({4}));
  linear("a sum of nothing", normal({3, 0}), normal({4, 0}), normal({4}));
  linear("no outputs", normal({3, 7}), normal({0, 7}), normal({0}));
  linear("a vector of weights", normal({3, 7}), normal({7}), none);
  table.add("linear", "sizes that do not fit", {normal({3, 6}), normal({4, 7}), none});
}

// ---- places

c10::List<std::optional<Tensor>> index_list(const std::vector<std::optional<Tensor>>& indices) {
  c10::List<std::optional<Tensor>> list;
  for (const auto& index : indices) list.push_back(index);
  return list;
}

void add_indexing(Table& table) {
  const auto put = [&](const std::string& what, const Tensor& self, const std::vector<std::optional<Tensor>>& indices,
                       const Tensor& values) {
    for (const bool accumulate : {false, true})
      table.add("_index_put_impl_", what, {self, index_list(indices), values, accumulate, false});
  };
  const Tensor rows = torch::tensor({3, 0, 5});
  put("rows", normal({7, 5}), {rows}, normal({3, 5}));
  put("negative", normal({7, 5}), {rows - 7}, normal({3, 5}));
  put("broadcast values", normal({7, 5}), {rows}, normal({5}));
  put("one value", normal({7, 5}), {rows}, normal({}));
  put("columns", normal({7, 8, 4}), {std::nullopt, rows}, normal({7, 3, 4}));
  put("columns, one row of values", normal({7, 8, 4}), {std::nullopt, rows}, normal({7, 1, 4}));
  put("two dimensions", normal({7, 8, 4}), {rows, rows}, normal({3, 4}));
  put("two dimensions apart", normal({7, 8, 6}), {rows, std::nullopt, rows}, normal({3, 8}));
  put("broadcast indices", normal({7, 8}), {rows.view({3, 1}), rows}, normal({3, 3}));
  put("turned", turned(normal({7, 8})), {rows}, turned(normal({3, 8})));
  put("a mask", normal({4}), {torch::tensor({true, false, true, true})}, normal({3}));
  put("a mask of two dimensions", normal({2, 2, 3}), {torch::tensor({true, false, true, true}).view({2, 2})},
      normal({3, 3}));
  put("no place", normal({7, 5}), {torch::empty({0}, torch::kLong)}, normal({0, 5}));
  put("one place", normal({7}), {torch::tensor(3)}, normal({}));
  put("one element", normal({1}), {torch::tensor({0})}, normal({1}));
  put("rows of nothing", normal({7, 0}), {rows}, normal({3, 0}));
  put("outside", normal({3, 5}), {rows}, normal({3, 5}));
  put("whole numbers", whole({7, 5}), {rows}, whole({3, 5}));
  put("values that do not fit", normal({7, 5}), {rows}, normal({2, 5}));
  table.add("_index_put_impl_", "places named twice, added",
            {normal({7, 5}), index_list({torch::tensor({3, 3, 0, 3})}), normal({4, 5}), true, false});

  const Tensor four = torch::tensor({3, 0, 3, 1});
  const auto added = [&](const std::string& what, const Tensor& self, int64_t dim, const Tensor& index,
                         const Tensor& source) {
    table.add("index_add", what, {self, dim, index, source, 1});
    table.add("index_add", what + ", times a factor", {self, dim, index, source, 0.3});
  };
  added("rows", normal({5, 6}), 0, four, normal({4, 6}));
  added("columns", normal({5, 6}), 1, four, normal({5, 4}));
  added("columns from the end", normal({5, 6}), -1, four, normal({5, 4}));
  added("int", normal({5, 6}), 0, four.to(torch::kInt), normal({4, 6}));
  added("turned", turned(normal({5, 6})), 1, four, turned(normal({5, 4})));
  added("expanded", normal({1, 6}).expand({5, 6}), 1, four, normal({1, 4}).expand({5, 4}));
  added("a vector", normal({5}), 0, four, normal({4}));
  added("one place", normal({5}), 0, torch::tensor({2}), normal({1}));
  added("a number for an index", normal({5}), 0, torch::tensor(2), normal({}));
  added("no place", normal({5, 6}), 0, torch::empty({0}, torch::kLong), normal({0, 6}));
  added("rows of nothing", normal({5, 0}), 0, four, normal({4, 0}));
  added("outside", normal({2, 6}), 0, four, normal({4, 6}));
  added("sizes that do not fit", normal({5, 6}), 0, four, normal({3, 6}));
  table.add("index_add", "whole numbers", {whole({5, 6}), 0, four, whole({4, 6}), 2});

  const auto scattered = [&](const std::string& what, const Tensor& self, int64_t dim, const Tensor& index,
                             const Tensor& source) {
    table.add("scatter_add", what, {self, dim, index, source});
    for (const char* how : {"amax", "amin", "mean", "sum"})
      for (const bool includes_self : {true, false})
        table.add("scatter_reduce.two", what + ", " + how, {self, dim, index, source, how, includes_self});
  };
  scattered("plain", normal({5, 6}), 0, below({4, 6}, 5), normal({4, 6}));
  scattered("a part", normal({5, 6}), 1, below({3, 4}, 6), normal({4, 7}));
  scattered("from the end", normal({5, 6}), -1, below({5, 4}, 6), normal({5, 4}));
  scattered("turned", turned(normal({5, 6})), 0, turned(below({4, 6}, 5)), turned(normal({4, 6})));
  scattered("slices", normal({5, 6}), 0, below({4, 1}, 5).expand({4, 6}), normal({4, 6}));
  scattered("expanded", normal({1, 6}).expand({5, 6}), 0, below({4, 6}, 5), normal({4, 1}).expand({4, 6}));
  scattered("a vector", normal({5}), 0, below({9}, 5), normal({9}));
  scattered("no dimension", normal({}), 0, torch::tensor(0), normal({}));
  scattered("no dimension, one place", normal({}), 0, torch::tensor({0}), normal({1}));
  scattered("one element", normal({1}), 0, torch::tensor({0}), normal({1}));
  scattered("no place", normal({5, 6}), 0, torch::empty({0, 6}, torch::kLong), normal({4, 6}));
  scattered("a number for an index", normal({5}), 0, torch::tensor(2), normal({}));
  scattered("rows of nothing", normal({5, 0}), 0, torch::empty({4, 0}, torch::kLong), normal({4, 0}));
  scattered("outside", normal({2, 6}), 0, torch::full({4, 6}, 2), normal({4, 6}));
  scattered("whole numbers", whole({5, 6}), 0, below({4, 6}, 5), whole({4, 6}));
}

// ---- random numbers

void add_random(Table& table) {
  const auto draw = [&](const std::string& name, const std::string& what, Arguments arguments) -> Comparison& {
    Comparison& comparison = table.add(name, what, std::move(arguments));
    comparison.draws = true;
    return comparison;
  };
  for (const Sheet& sheet : sheets(normal)) {
    const bool overlaps = sheet.what.starts_with("expanded");
    if (!overlaps) {
      draw("uniform_", sheet.what, {sheet.x, -1.0, 2.0, none});
      draw("normal_", sheet.what, {sheet.x, 1.0, 2.0, none});
      draw("exponential_", sheet.what, {sheet.x, 2.0, none});
      draw("bernoulli_.float", sheet.what, {sheet.x, 0.3, none});
      draw("random_", sheet.what, {sheet.x, none});
      draw("random_.to", sheet.what, {sheet.x, 9, none});
      draw("random_.from", sheet.what, {sheet.x, -3, 9, none});
      draw("random_.from", sheet.what + ", open", {sheet.x, -3, none, none});
      draw("bernoulli_.Tensor", sheet.what, {sheet.x, fraction(sheet.x.sizes().vec()), none});
      draw("bernoulli_.Tensor", sheet.what + ", one probability", {sheet.x, fraction({}), none});
    }
    for (const double p : {0.0, 0.3, 1.0}) {
      draw("native_dropout", sheet.what, {sheet.x, p, true});
      draw("dropout", sheet.what, {sheet.x, p, true});
    }
    table.add("native_dropout", sheet.what + ", evaluated", {sheet.x, 0.3, false});
    draw("native_dropout", sheet.what + ", not said", {sheet.x, 0.3, none});
    table.add("dropout", sheet.what + ", evaluated", {sheet.x, 0.3, false}).has_gradients = true;
    table.add("native_dropout_backward", sheet.what, {sheet.x, truths(sheet.x.sizes().vec()), 1.5});
    table.add("native_dropout_backward", sheet.what + ", turned",
              {turned(sheet.x), turned(truths(sheet.x.sizes().vec())), 1.5});
  }
  for (const Sheet& sheet : sheets(fraction)) draw("bernoulli", sheet.what, {sheet.x, none});
  for (const auto type : {torch::kInt, torch::kLong, torch::kBool, torch::kByte}) {
    draw("random_", "whole numbers", {below({3, 4}, 2).to(type), none});
    draw("random_.to", "whole numbers", {below({3, 4}, 2).to(type), 2, none});
    draw("bernoulli_.float", "whole numbers", {turned(below({3, 4}, 2).to(type)), 0.5, none});
    draw("bernoulli_.Tensor", "whole numbers", {below({3, 4}, 2).to(type), fraction({3, 4}), none});
  }
  draw("random_.from", "no number", {normal({3}), 3, 3, none});
  draw("uniform_", "from above to below", {normal({3}), 3.0, 2.0, none});
  draw("normal_", "a negative deviation", {normal({3}), 0.0, -1.0, none});
  draw("bernoulli_.float", "no probability", {normal({3}), 1.5, none});
  draw("exponential_", "a negative rate", {normal({3}), -1.0, none});
  for (const int64_t n : {0, 1, 9}) draw("randperm.generator", "of numbers", {n, none, torch::kLong, none, none, none});
  draw("randperm.generator", "int", {9, none, torch::kInt, none, none, none});
  draw("randperm.generator_out", "of numbers", {9, none, torch::zeros({9}, torch::kLong)});
  draw("randperm.generator_out", "int, into new places", {9, none, torch::zeros({0}, torch::kInt)});
}

// ---- softmax and losses

void add_softmax(Table& table) {
  for (const Sheet& sheet : sheets(normal)) {
    for (int64_t d = 0; d < std::max<int64_t>(sheet.x.dim(), 1); ++d) {
      for (const bool is_log : {false, true}) {
        const std::string name = is_log ? "_log_softmax" : "_softmax";
        const Tensor y = is_log ? sheet.x.log_softmax(d) : sheet.x.softmax(d);
        loosely(table.add(name, sheet.what, {sheet.x, d, false}));
        loosely(
            table.add(name, sheet.what + ", from the end", {sheet.x, d - std::max<int64_t>(sheet.x.dim(), 1), false}));
        loosely(table.add(name + "_backward_data", sheet.what, {sheet.x, y, d, torch::kFloat}));
        loosely(table.add(name + "_backward_data", sheet.what + ", turned",
                          {turned(sheet.x), turned(y), d, torch::kFloat}));
      }
    }
  }
  table.add("_softmax", "no such dimension", {normal({3, 4}), 2, false});
  table.add("_softmax", "minus infinity", {torch::full({2, 3}, -std::numeric_limits<float>::infinity()), 1, false});
  table.add("_log_softmax", "whole numbers", {whole({3, 4}), 1, false});
}

constexpr int64_t kReductions[] = {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum};

void add_nll(Table& table, const std::string& name, const Tensor& x, const Tensor& target, const std::string& what) {
  const int64_t classes = x.dim() == 1 ? x.size(0) : x.size(1);
  for (const int64_t reduction : kReductions) {
    for (const bool weighs : {false, true}) {
      for (const int64_t ignored : {int64_t{-100}, int64_t{1}}) {
        const IValue weight = weighs ? IValue(sliced(positive({classes}))) : none;
        Comparison& forward = loosely(table.add(name + "_forward", what, {x, target, weight, reduction, ignored}));
        if (reduction == at::Reduction::None) forward.scratch = {1, 3};
        // LibTorch's backward pass does not look whether these fit, or refuses what its forward pass takes.
        if (what == "outside" || what == "sizes that do not fit" || what == "one row and a list") continue;
        if (name == "nll_loss2d" && !x.is_contiguous()) continue;
        const Tensor gradient = reduction == at::Reduction::None ? normal(target.sizes().vec()) : normal({});
        loosely(table.add(name + "_backward", what,
                          {gradient, x, target, weight, reduction, ignored, torch::scalar_tensor(2.5)}));
      }
    }
  }
}

void add_losses(Table& table) {
  add_nll(table, "nll_loss", normal({6, 4}), below({6}, 4), "rows");
  add_nll(table, "nll_loss", turned(normal({6, 4})), sliced(below({6}, 4)), "turned");
  add_nll(table, "nll_loss", normal({1, 4}).expand({6, 4}), below({6}, 4), "expanded");
  add_nll(table, "nll_loss", normal({1, 1}), torch::zeros({1}, torch::kLong), "one element");
  add_nll(table, "nll_loss", normal({4}), torch::scalar_tensor(2, torch::kLong), "one row");
  add_nll(table, "nll_loss", normal({4}), torch::tensor({2}), "one row and a list");
  add_nll(table, "nll_loss", normal({0, 4}), torch::empty({0}, torch::kLong), "no row");
  add_nll(table, "nll_loss", normal({3, 4}), torch::full({3}, 1), "all left out");
  add_nll(table, "nll_loss", normal({3, 4}), torch::full({3}, 7), "outside");
  add_nll(table, "nll_loss", normal({3, 4}), below({2}, 4), "sizes that do not fit");
  add_nll(table, "nll_loss", normal({3, 4}), below({3}, 4).to(torch::kByte), "bytes");
  add_nll(table, "nll_loss2d", normal({2, 4, 3, 5}), below({2, 3, 5}, 4), "images");
  add_nll(table, "nll_loss2d", channels_last(normal({2, 4, 3, 5})), turned(below({2, 3, 5}, 4)), "channels last");
  add_nll(table, "nll_loss2d", normal({0, 4, 3, 5}), below({0, 3, 5}, 4), "no image");
  add_nll(table, "nll_loss2d", normal({2, 4, 1, 1}), below({2, 1, 1}, 4), "images of one pixel");
  for (const int64_t reduction : kReductions) {
    for (const Pair& pair : pairs(normal, normal)) {
      loosely(table.add("mse_loss", pair.what, {pair.a, pair.b, reduction}));
      loosely(table.add("smooth_l1_loss", pair.what, {pair.a, pair.b, reduction, 0.7}));
      loosely(table.add("huber_loss", pair.what, {pair.a, pair.b, reduction, 0.7}));
      if (pair.a.sizes() != pair.b.sizes()) continue;
      const Tensor gradient = reduction == at::Reduction::None ? normal(pair.a.sizes().vec()) : normal({});
      table.add("mse_loss_backward", pair.what, {gradient, pair.a, pair.b, reduction});
      table.add("smooth_l1_loss_backward", pair.what, {gradient, pair.a, pair.b, reduction, 0.7});
      table.add("huber_loss_backward", pair.what, {gradient, pair.a, pair.b, reduction, 0.7});
    }
    for (const Pair& pair : pairs(fraction, fraction)) {
      if (pair.a.sizes() != pair.b.sizes()) continue;
      const Tensor gradient = reduction == at::Reduction::None ? normal(pair.a.sizes().vec()) : normal({});
      for (const IValue& weight : {none, IValue(positive(pair.a.sizes().vec()))}) {
        loosely(table.add("binary_cross_entropy", pair.what, {pair.a, pair.b, weight, reduction}));
        loosely(table.add("binary_cross_entropy_backward", pair.what, {gradient, pair.a, pair.b, weight, reduction}));
      }
    }
  }
  table.add("smooth_l1_loss", "no width", {normal({3}), normal({3}), 1, 0.0});
  table.add("binary_cross_entropy", "certain",
            {torch::tensor({0.0f, 1.0f, 0.0f, 1.0f}), torch::tensor({0.0f, 1.0f, 1.0f, 0.0f}), none, 0});
  table.add("binary_cross_entropy", "no probability", {torch::tensor({1.5f}), torch::tensor({1.0f}), none, 1});
}

void add_ctc_loss(Table& table) {
  struct Speech {
    std::string what;
    Tensor x, targets;
    Sizes times, lengths;
    int64_t blank;
    bool zero_infinity;
  };
  const auto probabilities = [](const Sizes& sizes) { return normal(sizes).log_softmax(2); };
  const auto targets = torch::tensor({{1, 2, 3}, {4, 0, 0}, {0, 0, 0}, {5, 5, 2}});
  const std::vector<Speech> all = {
      {"rows", probabilities({9, 4, 6}), targets, {9, 5, 7, 4}, {3, 1, 0, 3}, 0, false},
      {"turned", turned(probabilities({9, 4, 6})), turned(targets), {9, 9, 9, 9}, {3, 1, 0, 3}, 0, false},
      {"joined targets", probabilities({6, 3, 5}), below({8}, 4), {6, 6, 6}, {3, 2, 3}, 4, false},
      {"int", probabilities({6, 2, 5}), torch::tensor({{1, 2}, {3, 3}}, torch::kInt), {6, 5}, {2, 2}, 0, false},
      {"too little time", probabilities({6, 2, 5}), torch::tensor({{1, 1, 1}, {1, 2, 3}}), {3, 6}, {3, 3}, 0, true},
      {"infinite", probabilities({6, 2, 5}), torch::tensor({{1, 1, 1}, {1, 2, 3}}), {3, 6}, {3, 3}, 0, false},
      {"no label", probabilities({4, 2, 3}), torch::empty({2, 0}, torch::kLong), {4, 2}, {0, 0}, 0, false},
      {"lengths that do not fit", probabilities({6, 2, 5}), torch::tensor({{1}, {2}}), {6}, {1, 1}, 0, false},
  };
  for (const Speech& one : all) {
    Comparison& forward =
        table.add("_ctc_loss", one.what, {one.x, one.targets, one.times, one.lengths, one.blank, one.zero_infinity});
    forward.tolerance = 1e-5;
    forward.scratch = {1};
    if (one.times.size() != one.lengths.size()) continue;
    const Tensor times = torch::tensor(one.times), lengths = torch::tensor(one.lengths);
    Comparison& of_tensors =
        table.add("_ctc_loss.Tensor", one.what, {one.x, one.targets, times, lengths, one.blank, one.zero_infinity});
    of_tensors.tolerance = 1e-5;
    of_tensors.scratch = {1};
    const auto [loss, alpha] = at::_ctc_loss(one.x, one.targets, one.times, one.lengths, one.blank, one.zero_infinity);
    const Tensor gradient = normal({loss.size(0)});
    table
        .add("_ctc_loss_backward", one.what,
             {gradient, one.x, one.targets, one.times, one.lengths, loss, alpha, one.blank, one.zero_infinity})
        .tolerance = 1e-5;
    table
        .add("_ctc_loss_backward.Tensor", one.what,
             {gradient, one.x, one.targets, times, lengths, loss, alpha, one.blank, one.zero_infinity})
        .tolerance = 1e-5;
  }
}

void add_distances(Table& table) {
  struct Rows {
    std::string what;
    Tensor a, b;
  };
  const std::vector<Rows> all = {{"rows", normal({5, 4}), normal({3, 4})},
                                 {"batches", normal({2, 5, 4}), normal({2, 3, 4})},
                                 {"broadcast", normal({2, 1, 5, 4}), normal({3, 3, 4})},
                                 {"turned", turned(normal({2, 5, 4})), turned(normal({2, 3, 4}))},
                                 {"expanded", normal({1, 4}).expand({5, 4}), normal({3, 1}).expand({3, 4})},
                                 {"many rows", normal({2, 30, 4}), normal({2, 5, 4})},
                                 {"one element", normal({1, 1}), normal({1, 1})},
                                 {"no row", normal({0, 4}), normal({3, 4})},
                                 {"rows of nothing", normal({5, 0}), normal({3, 0})},
                                 {"widths that do not fit", normal({5, 4}), normal({3, 5})}};
  for (const Rows& rows : all) {
    for (const double p : {0.0, 1.0, 1.5, 2.0, 3.5, std::numeric_limits<double>::infinity()}) {
      for (const IValue& mode : {none, IValue(int64_t{1}), IValue(int64_t{2})})
        table.add("_cdist_forward", rows.what, {rows.a, rows.b, p, mode}).tolerance = 2e-5;
      if (rows.a.size(-1) != rows.b.size(-1) || rows.a.dim() != rows.b.dim()) continue;
      const Tensor distances = at::_cdist_forward(rows.a, rows.b, p, {});
      table.add("_cdist_backward", rows.what, {normal(distances.sizes().vec()), rows.a, rows.b, p, distances})
          .tolerance = 1e-5;
    }
  }
  table.add("_cdist_backward", "equal rows",
            {torch::ones({2, 2}), torch::ones({2, 3}), torch::ones({2, 3}), 2.0, torch::zeros({2, 2})});
}

// ---- layers

void add_normalization(Table& table) {
  const std::vector<Sheet> inputs = {{"rows", normal({6, 5})},
                                     {"one sample", normal({1, 5, 4})},
                                     {"sequences", normal({3, 5, 7})},
                                     {"images", normal({3, 5, 4, 6})},
                                     {"channels last", channels_last(normal({3, 5, 4, 6}))},
                                     {"turned", turned(normal({3, 5, 7}))},
                                     {"sliced", sliced(normal({3, 5, 7}))},
                                     {"expanded", normal({1, 5, 7}).expand({3, 5, 7})},
                                     {"volumes", normal({2, 5, 3, 4, 2})}};
  for (const Sheet& sheet : inputs) {
    for (const bool training : {true, false}) {
      for (const bool scales : {true, false}) {
        const IValue w = scales ? IValue(positive({5})) : none, b = scales ? IValue(normal({5})) : none;
        for (const bool keeps : {true, false}) {
          if (!training && !keeps) continue;
          const IValue mean = keeps ? IValue(normal({5})) : none, var = keeps ? IValue(positive({5})) : none;
          loosely(table.add("native_batch_norm", sheet.what, {sheet.x, w, b, mean, var, training, 0.1, 1e-5}));
          for (const auto& wanted :
               {std::array<bool, 3>{true, true, true}, {true, false, false}, {false, true, true}}) {
            table
                .add("native_batch_norm_backward", sheet.what,
                     {normal(sheet.x.sizes().vec()), sheet.x, w, mean, var, IValue(normal({5})), IValue(positive({5})),
                      training, 1e-5, wanted})
                .tolerance = 1e-5;
          }
        }
      }
    }
  }
  for (const Sheet& sheet : sheets(normal)) {
    if (sheet.x.dim() == 0) continue;
    for (size_t count = 1; count <= static_cast<size_t>(sheet.x.dim()); ++count) {
      const Sizes all = sheet.x.sizes().vec(), normalized(all.end() - static_cast<std::ptrdiff_t>(count), all.end());
      for (const bool scales : {true, false}) {
        const IValue w = scales ? IValue(positive(normalized)) : none, b = scales ? IValue(normal(normalized)) : none;
        table.add("native_layer_norm", sheet.what, {sheet.x, normalized, w, b, 1e-5}).tolerance = 1e-4;
        Sizes statistics = all;
        std::fill(statistics.end() - static_cast<std::ptrdiff_t>(count), statistics.end(), 1);
        for (const auto& wanted : {std::array<bool, 3>{true, scales, scales}, {true, false, false}}) {
          table
              .add("native_layer_norm_backward", sheet.what,
                   {normal(all), sheet.x, normalized, normal(statistics), positive(statistics), w, b, wanted})
              .tolerance = 1e-5;
        }
      }
    }
  }
  table.add("native_layer_norm", "sizes that do not fit", {normal({3, 4}), Sizes{5}, none, none, 1e-5});
  const std::vector<Sheet> grouped = {{"images", normal({3, 6, 4, 5})},
                                      {"channels last", channels_last(normal({3, 6, 4, 5}))},
                                      {"rows", normal({3, 6})},
                                      {"sequences", turned(normal({3, 6, 5}))},
                                      {"sliced", sliced(normal({3, 6, 5}))},
                                      {"expanded", normal({1, 6, 5}).expand({3, 6, 5})}};
  for (const Sheet& sheet : grouped) {
    const int64_t n = sheet.x.size(0), hw = c10::multiply_integers(sheet.x.sizes().slice(2));
    // at::group_norm hands the operator contiguous tensors, or channels last.
    const Tensor x = sheet.what == "channels last" ? sheet.x : sheet.x.contiguous();
    for (const int64_t groups : {1, 2, 6}) {
      for (const bool scales : {true, false}) {
        const IValue w = scales ? IValue(positive({6})) : none, b = scales ? IValue(normal({6})) : none;
        table.add("native_group_norm", sheet.what, {x, w, b, n, 6, hw, groups, 1e-5}).tolerance = 1e-4;
        for (const auto& wanted : {std::array<bool, 3>{true, true, true}, {true, false, false}, {false, true, true}}) {
          const bool is_whole = scales && wanted[0] && wanted[1];
          if (!scales && wanted[1]) continue;                        // LibTorch's own refuses it
          if (sheet.what == "channels last" && !is_whole) continue;  // LibTorch's own writes to all three regardless
          table
              .add("native_group_norm_backward", sheet.what,
                   {torch::empty_like(x).copy_(normal(x.sizes().vec())), x, normal({n, groups}), positive({n, groups}),
                    w, n, 6, hw, groups, wanted})
              .tolerance = 1e-5;
        }
      }
    }
  }
  const auto weight_norm = [&](const std::string& what, const Tensor& v, int64_t dim) {
    Sizes sizes(static_cast<size_t>(v.dim()), 1);
    sizes[static_cast<size_t>(dim)] = v.size(dim);
    loosely(table.add("_weight_norm_interface", what, {v, positive(sizes), dim}));
    table
        .add("_weight_norm_interface_backward", what,
             {normal(v.sizes().vec()), v, positive(sizes), positive(sizes), dim})
        .tolerance = 1e-5;
  };
  weight_norm("along the first", normal({6, 3, 4}), 0);
  weight_norm("along the last", normal({6, 3, 4}), 2);
  weight_norm("a vector", normal({6}), 0);
  weight_norm("one element", normal({1, 1}), 0);
}

void add_convolution(Table& table) {
  struct Layer {
    std::string what;
    Tensor x, w, b;
    Sizes stride, padding, dilation;
    bool transposed;
    Sizes output_padding;
    int64_t groups;
  };
  const std::vector<Layer> layers = {
      {"images", normal({2, 6, 9, 8}), normal({4, 6, 3, 3}), normal({4}), {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1},
      {"groups", normal({2, 6, 9, 8}), normal({4, 3, 3, 3}), normal({4}), {2, 1}, {1, 2}, {1, 2}, false, {0, 0}, 2},
      {"depthwise", normal({2, 6, 9, 8}), normal({6, 1, 3, 3}), {}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 6},
      {"of one pixel",
       normal({2, 6, 9, 8}),
       normal({4, 6, 1, 1}),
       normal({4}),
       {1, 1},
       {0, 0},
       {1, 1},
       false,
       {0, 0},
       1},
      {"channels last",
       channels_last(normal({2, 6, 9, 8})),
       channels_last(normal({4, 6, 3, 3})),
       normal({4}),
       {1, 1},
       {1, 1},
       {1, 1},
       false,
       {0, 0},
       1},
      {"images channels last",
       channels_last(normal({2, 6, 9, 8})),
       normal({4, 6, 3, 3}),
       normal({4}),
       {1, 1},
       {1, 1},
       {1, 1},
       false,
       {0, 0},
       1},
      {"weights channels last",
       normal({2, 6, 9, 8}),
       channels_last(normal({4, 6, 3, 3})),
       {},
       {1, 1},
       {1, 1},
       {1, 1},
       false,
       {0, 0},
       1},
      {"turned",
       turned(normal({2, 6, 9, 8})),
       turned(normal({4, 6, 3, 3})),
       sliced(normal({4})),
       {1, 1},
       {1, 1},
       {1, 1},
       false,
       {0, 0},
       1},
      {"expanded",
       normal({1, 6, 9, 8}).expand({2, 6, 9, 8}),
       normal({4, 6, 3, 3}),
       normal({4}),
       {1, 1},
       {1, 1},
       {1, 1},
       false,
       {0, 0},
       1},
      {"sequences", normal({2, 6, 20}), normal({4, 6, 3}), normal({4}), {2}, {1}, {1}, false, {0}, 1},
      {"sequences, turned", turned(normal({2, 6, 20})), normal({4, 6, 3}), {}, {1}, {1}, {2}, false, {0}, 1},
      {"transposed", normal({2, 6, 5, 4}), normal({6, 2, 3, 3}), normal({4}), {2, 1}, {1, 0}, {1, 1}, true, {1, 0}, 2},
      {"transposed, channels last",
       channels_last(normal({2, 6, 5, 4})),
       normal({6, 4, 3, 3}),
       normal({4}),
       {2, 2},
       {1, 1},
       {1, 1},
       true,
       {1, 1},
       1},
      {"transposed sequences", normal({2, 4, 9}), normal({4, 3, 4}), normal({3}), {2}, {1}, {1}, true, {0}, 1},
      {"no sample", normal({0, 6, 9, 8}), normal({4, 6, 3, 3}), normal({4}), {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1},
      {"one element",
       normal({1, 1, 1, 1}),
       normal({1, 1, 1, 1}),
       normal({1}),
       {1, 1},
       {0, 0},
       {1, 1},
       false,
       {0, 0},
       1},
      {"volumes",
       normal({2, 4, 5, 6, 7}),
       normal({6, 2, 3, 2, 3}),
       normal({6}),
       {2, 1, 2},
       {1, 0, 2},
       {1, 2, 1},
       false,
       {0, 0, 0},
       2},
      {"volumes, turned",
       turned(normal({2, 4, 5, 6, 7})),
       normal({6, 4, 3, 2, 3}),
       {},
       {1, 1, 1},
       {1, 1, 1},
       {1, 1, 1},
       false,
       {0, 0, 0},
       1},
      {"volumes, one number for all sides",
       normal({2, 3, 5, 6, 7}),
       normal({2, 3, 3, 3, 3}),
       normal({2}),
       {2},
       {1},
       {1},
       false,
       {0},
       1},
      {"volumes, transposed",
       normal({2, 4, 3, 4, 5}),
       normal({4, 3, 2, 3, 3}),
       normal({6}),
       {2, 1, 2},
       {1, 0, 1},
       {1, 1, 1},
       true,
       {1, 0, 1},
       2},
      {"no volume", normal({0, 4, 5, 6, 7}), normal({6, 4, 3, 2, 3}), normal({6}), {1}, {0}, {1}, false, {0}, 1},
      {"volumes that are too small",
       normal({2, 4, 2, 6, 7}),
       normal({6, 4, 3, 2, 3}),
       normal({6}),
       {1},
       {0},
       {1},
       false,
       {0},
       1},
      {"too small", normal({2, 6, 2, 2}), normal({4, 6, 3, 3}), {}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1},
      {"channels that do not fit",
       normal({2, 5, 9, 8}),
       normal({4, 6, 3, 3}),
       {},
       {1, 1},
       {0, 0},
       {1, 1},
       false,
       {0, 0},
       1},
      {"one number for both sides",
       normal({2, 6, 9, 8}),
       normal({4, 6, 3, 3}),
       normal({4}),
       {2},
       {1},
       {1},
       false,
       {0},
       1},
  };
  for (const Layer& layer : layers) {
    const IValue bias = layer.b.defined() ? IValue(layer.b) : none;
    const Arguments rest = {layer.stride,     layer.padding,        layer.dilation,
                            layer.transposed, layer.output_padding, layer.groups};
    table.add("convolution", layer.what, joined({layer.x, layer.w, bias}, rest)).tolerance = 1e-5;
    table.add("_convolution", layer.what, joined(joined({layer.x, layer.w, bias}, rest), {false, false, true, true}))
        .tolerance = 1e-5;
    Tensor y;
    try {
      y = at::convolution(layer.x, layer.w, layer.b, layer.stride, layer.padding, layer.dilation, layer.transposed,
                          layer.output_padding, layer.groups);
    } catch (const c10::Error&) {
      continue;  // refused: the forward pass is compared above
    }
    const Tensor dy = torch::empty_like(y).copy_(normal(y.sizes().vec()));
    const IValue sizes = layer.b.defined() ? IValue(layer.b.sizes().vec()) : none;
    for (const auto& wanted : {std::array<bool, 3>{true, true, true}, {true, false, false}, {false, true, false}}) {
      table.add("convolution_backward", layer.what, joined(joined({dy, layer.x, layer.w, sizes}, rest), {wanted}))
          .tolerance = 1e-5;
    }
  }
}

void add_pooling(Table& table) {
  std::vector<Sheet> images = {
      {"images", normal({2, 3, 9, 8})},         {"channels last", channels_last(normal({2, 3, 9, 8}))},
      {"one image", normal({3, 9, 8})},         {"turned", turned(normal({2, 3, 9, 8}))},
      {"sliced", sliced(normal({2, 3, 9, 8}))}, {"expanded", normal({1, 3, 9, 8}).expand({2, 3, 9, 8})},
      {"no image", normal({0, 3, 9, 8})},       {"too small", normal({2, 3, 1, 1})}};
  for (const Sheet& sheet : images) {
    for (const bool ceil_mode : {false, true}) {
      const auto try_out = [](const auto& work) -> std::optional<Tensor> {
        try {
          return work();
        } catch (const c10::Error&) {
          return std::nullopt;
        }
      };
      for (const Sizes& stride : {Sizes{}, Sizes{2, 1}, Sizes{2}}) {
        table.add("max_pool2d_with_indices", sheet.what,
                  {sheet.x, Sizes{3, 2}, stride, Sizes{1, 1}, Sizes{1, 1}, ceil_mode});
        Tensor indices;
        const auto y = try_out([&] {
          const auto both = at::max_pool2d_with_indices(sheet.x, {3, 2}, stride, {1, 1}, {1, 1}, ceil_mode);
          indices = std::get<1>(both);
          return std::get<0>(both);
        });
        if (y)
          table.add("max_pool2d_with_indices_backward", sheet.what,
                    {torch::empty_like(*y).copy_(normal(y->sizes().vec())), sheet.x, Sizes{3, 2}, stride, Sizes{1, 1},
                     Sizes{1, 1}, ceil_mode, indices});
        for (const bool counts : {false, true}) {
          for (const IValue& divisor : {none, IValue(5)}) {
            table.add("avg_pool2d", sheet.what,
                      {sheet.x, Sizes{3, 2}, stride, Sizes{1, 1}, ceil_mode, counts, divisor});
            const auto mean = try_out([&] {
              return at::avg_pool2d(sheet.x, {3, 2}, stride, {1, 1}, ceil_mode, counts,
                                    divisor.isNone() ? std::nullopt : std::optional<int64_t>(5));
            });
            if (mean)
              table.add("avg_pool2d_backward", sheet.what,
                        {torch::empty_like(*mean).copy_(normal(mean->sizes().vec())), sheet.x, Sizes{3, 2}, stride,
                         Sizes{1, 1}, ceil_mode, counts, divisor});
          }
        }
      }
    }
    for (const Sizes& output : {Sizes{4, 3}, Sizes{1, 1}, Sizes{9, 8}, Sizes{12, 10}}) {
      table.add("_adaptive_avg_pool2d", sheet.what, {sheet.x, output});
      table.add("adaptive_max_pool2d", sheet.what, {sheet.x, output});
      Sizes sizes = sheet.x.sizes().vec();
      sizes[sizes.size() - 2] = output[0];
      sizes.back() = output[1];
      const Tensor dy = torch::empty_like(at::_adaptive_avg_pool2d(sheet.x, output)).copy_(normal(sizes));
      table.add("_adaptive_avg_pool2d_backward", sheet.what, {dy, sheet.x});
      table.add("adaptive_max_pool2d_backward", sheet.what,
                {dy, sheet.x, std::get<1>(at::adaptive_max_pool2d(sheet.x, output))});
    }
  }
}

void add_upsampling(Table& table) {
  const std::vector<Sheet> images = {{"images", normal({2, 3, 4, 5})},
                                     {"channels last", channels_last(normal({2, 3, 4, 5}))},
                                     {"channels last of many", channels_last(normal({2, 8, 4, 5}))},
                                     {"turned", turned(normal({2, 3, 4, 5}))},
                                     {"expanded", normal({1, 3, 4, 5}).expand({2, 3, 4, 5})},
                                     {"no image", normal({0, 3, 4, 5})},
                                     {"one element", normal({1, 1, 1, 1})}};
  for (const Sheet& sheet : images) {
    const Sizes sizes = sheet.x.sizes().vec();
    for (const Sizes& output : {Sizes{9, 8}, Sizes{4, 5}, Sizes{3, 2}, Sizes{8, 10}}) {
      const Tensor dy = normal({sizes[0], sizes[1], output[0], output[1]});
      const Tensor as_input = sheet.what.starts_with("channels last") ? channels_last(dy) : dy;
      for (const IValue& factor : {none, IValue(2.0)}) {
        if (!factor.isNone() && output != Sizes{2 * sizes[2], 2 * sizes[3]}) continue;
        table.add("upsample_nearest2d", sheet.what, {sheet.x, output, factor, factor});
        table.add("upsample_nearest2d_backward", sheet.what, {as_input, output, sizes, factor, factor}).tolerance =
            1e-5;
        for (const bool corners : {false, true}) {
          table.add("upsample_bilinear2d", sheet.what, {sheet.x, output, corners, factor, factor}).tolerance = 1e-5;
          table.add("upsample_bilinear2d_backward", sheet.what, {as_input, output, sizes, corners, factor, factor})
              .tolerance = 1e-5;
        }
      }
    }
  }
  for (const Sheet& sheet : {Sheet{"sequences", normal({2, 3, 5})}, Sheet{"turned", turned(normal({2, 3, 5}))},
                             Sheet{"one element", normal({1, 1, 1})}, Sheet{"no sequence", normal({0, 3, 5})}}) {
    for (const int64_t length : {13, 5, 3, 10}) {
      for (const IValue& factor : {none, IValue(2.0)}) {
        if (!factor.isNone() && length != 2 * sheet.x.size(2)) continue;
        table.add("upsample_nearest1d", sheet.what, {sheet.x, Sizes{length}, factor});
        table
            .add("upsample_nearest1d_backward", sheet.what,
                 {normal({sheet.x.size(0), sheet.x.size(1), length}), Sizes{length}, sheet.x.sizes().vec(), factor})
            .tolerance = 1e-5;
      }
    }
  }
}

void add_padding(Table& table) {
  struct Padded {
    std::string name;
    Tensor x;
    Sizes padding, image;
  };
  const std::vector<Padded> all = {
      {"reflection_pad1d_backward", normal({2, 3, 5}), {2, 1}, {8}},
      {"reflection_pad1d_backward", normal({3, 5}), {0, 4}, {9}},
      {"reflection_pad2d_backward", normal({2, 3, 4, 5}), {2, 1, 3, 0}, {7, 8}},
      {"reflection_pad2d_backward", channels_last(normal({2, 3, 4, 5})), {2, 1, 3, 0}, {7, 8}},
      {"reflection_pad2d_backward", normal({3, 4, 5}), {0, 0, 0, 0}, {4, 5}},
      {"replication_pad1d_backward", normal({2, 3, 5}), {2, 4}, {11}},
      {"replication_pad1d_backward", normal({3, 1}), {2, 4}, {7}},
      {"replication_pad2d_backward", normal({2, 3, 4, 5}), {2, 1, 3, 0}, {7, 8}},
      {"replication_pad2d_backward", channels_last(normal({2, 3, 4, 5})), {2, 1, 3, 0}, {7, 8}},
      {"replication_pad2d_backward", normal({3, 4, 5}), {2, 6, 3, 0}, {7, 13}}};
  for (const Padded& each : all) {
    Sizes sizes = each.x.sizes().vec();
    std::copy(each.image.begin(), each.image.end(), sizes.end() - static_cast<std::ptrdiff_t>(each.image.size()));
    const bool last = each.x.dim() == 4 && each.x.is_contiguous(at::MemoryFormat::ChannelsLast);
    table.add(each.name, last ? "channels last" : "plain",
              {last ? channels_last(normal(sizes)) : normal(sizes), each.x, each.padding});
    table.add(each.name, "turned", {turned(normal(sizes)), each.x, each.padding});
  }
}

void add_embedding(Table& table) {
  for (const bool by_frequency : {false, true}) {
    for (const int64_t padding : {-1, 3}) {
      const auto dense = [&](const std::string& what, const Tensor& gradient, const Tensor& indices) {
        loosely(table.add("embedding_dense_backward", what, {gradient, indices, 9, padding, by_frequency}));
      };
      dense("rows", normal({20, 4}), below({20}, 9));
      dense("two dimensions", normal({4, 5, 4}), below({4, 5}, 9));
      dense("turned", turned(normal({4, 5, 4})), turned(below({4, 5}, 9)));
      dense("expanded", normal({1, 4}).expand({20, 4}), below({20}, 9));
      dense("int", normal({20, 4}), below({20}, 9).to(torch::kInt));
      dense("no index", normal({0, 4}), below({0}, 9));
      dense("no dimension", normal({4}), torch::tensor(3));
    }
  }
  struct Bag {
    std::string what;
    Tensor indices, offsets;
    bool include_last;
    int64_t padding;
  };
  const std::vector<Bag> bags = {
      {"bags", below({20}, 9), torch::tensor({0, 3, 3, 11}), false, -1},
      {"bags and an end", below({20}, 9), torch::tensor({0, 3, 3, 11, 20}), true, -1},
      {"bags with padding", below({20}, 9), torch::tensor({0, 3, 3, 11}), false, 2},
      {"one bag", below({5}, 9), torch::tensor({0}), false, -1},
      {"empty bags", below({0}, 9), torch::tensor({0, 0}), false, -1},
      {"int", below({20}, 9).to(torch::kInt), torch::tensor({0, 3, 3, 11}).to(torch::kInt), false, -1}};
  for (const Bag& bag : bags) {
    for (const int64_t mode : {0, 1}) {
      for (const bool weighs : {false, true}) {
        if (weighs && mode != 0) continue;
        const IValue factors = weighs ? IValue(normal({bag.indices.size(0)})) : none;
        const Tensor weight = normal({9, 4});
        for (const char* name : {"_embedding_bag", "_embedding_bag_forward_only"}) {
          Comparison& forward = loosely(table.add(
              name, bag.what,
              {weight, bag.indices, bag.offsets, false, mode, false, factors, bag.include_last, bag.padding}));
          forward.scratch = {1, 2, 3};
        }
        const auto [y, of, sizes, most] = at::_embedding_bag(
            weight, bag.indices, bag.offsets, false, mode, false,
            weighs ? std::optional<Tensor>(factors.toTensor()) : std::nullopt, bag.include_last, bag.padding);
        // What LibTorch keeps for its backward pass has forms of its own: the bag of each index is given here.
        if (of.numel() != bag.indices.numel()) continue;
        loosely(table.add("_embedding_bag_backward", bag.what,
                          {normal(y.sizes().vec()), bag.indices, bag.offsets, of, sizes, most, 9, false, mode, false,
                           factors, bag.padding}));
        if (weighs)
          loosely(table.add("_embedding_bag_per_sample_weights_backward", bag.what,
                            {normal(y.sizes().vec()), weight, bag.indices, bag.offsets, of, mode, bag.padding}));
      }
    }
  }
}

void add_attention(Table& table) {
  const auto attend = [&](const std::string& what, const Tensor& q, const Tensor& k, const Tensor& v,
                          const IValue& mask, bool causal, const IValue& scale, bool grouped) {
    Comparison& comparison =
        table.add("scaled_dot_product_attention", what, {q, k, v, mask, 0.0, causal, scale, grouped});
    comparison.has_gradients = true;
    comparison.tolerance = 1e-5;
  };
  const auto same = [&](const Sizes& sizes) {
    return std::array<Tensor, 3>{normal(sizes), normal(sizes), normal(sizes)};
  };
  for (const bool causal : {false, true}) {
    auto [q, k, v] = same({2, 3, 9, 8});
    attend("plain", q, k, v, none, causal, none, false);
    attend("a scale", q, k, v, none, causal, 0.5, false);
    attend("tokens before heads", q.transpose(1, 2).contiguous().transpose(1, 2),
           k.transpose(1, 2).contiguous().transpose(1, 2), v.transpose(1, 2).contiguous().transpose(1, 2), none, causal,
           none, false);
    attend("turned", turned(q), turned(k), turned(v), none, causal, none, false);
    attend("expanded", q.narrow(0, 0, 1).expand({2, 3, 9, 8}), k, v.narrow(1, 0, 1).expand({2, 3, 9, 8}), none, causal,
           none, false);
    auto [q3, k3, v3] = same({3, 9, 8});
    attend("three dimensions", q3, k3, v3, none, causal, none, false);
    auto [q2, k2, v2] = same({9, 8});
    attend("two dimensions", q2, k2, v2, none, causal, none, false);
    auto [q5, k5, v5] = same({2, 2, 3, 9, 8});
    attend("five dimensions", q5, k5, v5, none, causal, none, false);
    auto [q1, k1, v1] = same({1, 1, 1, 1});
    attend("one element", q1, k1, v1, none, causal, none, false);
    auto [q0, k0, v0] = same({0, 3, 9, 8});
    attend("no sample", q0, k0, v0, none, causal, none, false);
    attend("heads that share keys", normal({2, 6, 9, 8}), normal({2, 2, 9, 8}), normal({2, 2, 9, 8}), none, causal,
           none, true);
    attend("values of another width", normal({2, 3, 9, 8}), normal({2, 3, 9, 8}), normal({2, 3, 9, 5}), none, causal,
           none, false);
  }
  const Tensor q = normal({2, 3, 9, 8}), k = normal({2, 3, 17, 8}), v = normal({2, 3, 17, 8});
  attend("other keys", q, k, v, none, false, none, false);
  attend("a mask of truths", q, k, v, torch::ones({9, 17}, torch::kBool).tril(5), false, none, false);
  attend("a mask of truths, broadcast", q, k, v, torch::ones({2, 1, 9, 17}, torch::kBool).tril(5), false, none, false);
  attend("a mask", q, k, v, normal({9, 17}), false, none, false);
  attend("a mask for every head", q, k, v, normal({2, 3, 9, 17}), false, none, false);
  attend("a mask, expanded", q, k, v, normal({2, 1, 1, 17}).expand({2, 3, 9, 17}), false, none, false);
  attend("a mask and the past", q, k, v, normal({9, 17}), true, none, false);
  attend("no key", q, normal({2, 3, 0, 8}), normal({2, 3, 0, 8}), none, false, none, false);
}

void add_lstm(Table& table) {
  struct Layers {
    std::string what;
    int64_t layers, steps, samples;
    bool biases, both, batch_first;
  };
  for (const Layers& each :
       {Layers{"one layer", 1, 5, 3, true, false, false}, Layers{"two layers", 2, 5, 3, true, false, false},
        Layers{"both directions", 2, 5, 3, true, true, false}, Layers{"no bias", 1, 5, 3, false, false, false},
        Layers{"batch first", 2, 5, 3, true, false, true},
        Layers{"one step of one sample", 1, 1, 1, true, false, false},
        Layers{"no sample", 1, 5, 0, true, false, false}}) {
    const int64_t directions = each.both ? 2 : 1;
    const Tensor x = each.batch_first ? normal({each.samples, each.steps, 6}) : normal({each.steps, each.samples, 6});
    const std::vector<Tensor> start = {normal({each.layers * directions, each.samples, 4}),
                                       normal({each.layers * directions, each.samples, 4})};
    std::vector<Tensor> parameters;
    for (int64_t i = 0; i < each.layers * directions; ++i) {
      parameters.push_back(normal({16, i < directions ? 6 : directions * 4}));
      parameters.push_back(normal({16, 4}));
      for (int k = 0; each.biases && k < 2; ++k) parameters.push_back(normal({16}));
    }
    Comparison& comparison =
        table.add("lstm.input", each.what,
                  {x, start, parameters, each.biases, each.layers, 0.0, true, each.both, each.batch_first});
    comparison.has_gradients = true;
    comparison.tolerance = 1e-5;
  }
  const std::vector<Tensor> start = {normal({1, 1, 4}).expand({1, 3, 4}), normal({1, 1, 4}).expand({1, 3, 4})};
  const std::vector<Tensor> parameters = {turned(normal({16, 6})), turned(normal({16, 4})), sliced(normal({16})),
                                          normal({16})};
  Comparison& comparison = table.add("lstm.input", "turned",
                                     {turned(normal({5, 3, 6})), start, parameters, true, 1, 0.0, true, false, false});
  comparison.has_gradients = true;
  comparison.tolerance = 1e-5;
}

void add_copies(Table& table) {
  binary(table, "copy_", normal, normal, {false});
  table.add("copy_", "another type", {normal({3, 4}), whole({3, 4}), false});
}

}  // namespace

std::vector<Comparison> comparisons() {
  generator().set_current_seed(11);
  Table table;
  for (const auto add :
       {add_functions,   add_arithmetic, add_whole_numbers, add_reductions, add_running,   add_sorting,
        add_products,    add_indexing,   add_random,        add_softmax,    add_losses,    add_normalization,
        add_convolution, add_pooling,    add_upsampling,    add_padding,    add_embedding, add_attention,
        add_lstm,        add_copies,     add_ctc_loss,      add_distances})
    add(table);
  return std::move(table.all_);
}

}  // namespace estrain::operators::comparing
