// Random operators, with numbers from a counter (core/engine/operators/random_stream.h, kernels/portable/random.h).

#include "kernels/portable/random.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/native_dropout.h>

#include <limits>
#include <tuple>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/random_stream.h"
#include "core/engine/operators/registry.h"
#include "core/engine/operators/tensors/elements.h"

namespace estrain::operators {
namespace {

using at::Tensor;
using Generator = std::optional<at::Generator>;
namespace portable = kernels::portable;

// LibTorch calls an operator by the types of its schema: generators come by value.
// NOLINTBEGIN(performance-unnecessary-value-param)

// Draws into `self` with arbitrary strides: element i in logical order gets number i.
template <typename Draw>
Tensor& fill(const char* name, Tensor& self, Draw draw) {
  require_float(name, self);
  if (self.numel() == 0) return self;
  if (self.is_contiguous()) {
    draw(self.mutable_data_ptr<float>(), self.numel());
    return self;
  }
  Tensor values = new_like(self);
  draw(values.mutable_data_ptr<float>(), values.numel());
  return self.copy_(values);
}

Tensor& uniform_(Tensor& self, double from, double to, Generator generator) {
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
  const portable::Stream call = next_random_call(generator);
  return fill("uniform_", self, [&](float* out, int64_t n) {
    portable::uniform(out, n, static_cast<float>(from), static_cast<float>(to), call, execution_on(self));
  });
}

Tensor& normal_(Tensor& self, double mean, double std, Generator generator) {
  TORCH_CHECK(std >= 0, "normal_: the standard deviation is ", std);
  const portable::Stream call = next_random_call(generator);
  return fill("normal_", self, [&](float* out, int64_t n) {
    portable::normal(out, n, static_cast<float>(mean), static_cast<float>(std), call, execution_on(self));
  });
}

Tensor& exponential_(Tensor& self, double rate, Generator generator) {
  TORCH_CHECK(rate > 0, "exponential_: the rate is ", rate);
  const portable::Stream call = next_random_call(generator);
  return fill("exponential_", self, [&](float* out, int64_t n) {
    portable::exponential(out, n, static_cast<float>(rate), call, execution_on(self));
  });
}

Tensor& bernoulli_(Tensor& self, double p, Generator generator) {
  TORCH_CHECK(p >= 0 && p <= 1, "bernoulli_: the probability is ", p);
  const portable::Stream call = next_random_call(generator);
  Tensor values = self.scalar_type() == at::kFloat ? self : new_like(self);
  fill("bernoulli_", values,
       [&](float* out, int64_t n) { portable::bernoulli(out, n, static_cast<float>(p), call, execution_on(self)); });
  return values.is_same(self) ? self : self.copy_(values);
}

// One probability per element: an element is 1 if a uniform number is below its probability.
Tensor& bernoulli_each(Tensor& self, const Tensor& p, Generator generator) {
  Tensor numbers = new_like(self);
  uniform_(numbers, 0, 1, std::move(generator));
  return self.copy_(at::lt(numbers, p));
}
Tensor bernoulli(const Tensor& self, Generator generator) {
  Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  return bernoulli_each(out, self, std::move(generator));
}
Tensor& bernoulli_out(const Tensor& self, Generator generator, Tensor& out) {
  return give(operators::bernoulli(self, std::move(generator)), out);
}

// Draws integers in [lo, hi), stored in the type of `self`.
Tensor& integers(Tensor& self, int64_t lo, int64_t hi, const Generator& generator) {
  TORCH_CHECK(lo < hi, "random_: there is no integer in [", lo, ", ", hi, ")");
  const portable::Stream call = next_random_call(generator);
  const Tensor drawn = at::empty(self.sizes(), self.options().dtype(at::kLong));
  if (drawn.numel() == 0) return self;
  portable::random_integers(drawn.mutable_data_ptr<int64_t>(), drawn.numel(), lo, hi, call, execution_on(drawn));
  return self.copy_(drawn);
}

// Returns one more than the largest integer of random_() for a type.
int64_t default_bound(at::ScalarType type) {
  if (type == at::kBool) return 2;
  if (type == at::kByte) return 256;
  if (type == at::kChar) return 128;
  if (type == at::kShort) return 32768;
  if (type == at::kInt) return int64_t{1} << 31;
  if (type == at::kFloat) return (int64_t{1} << 24) + 1;
  return std::numeric_limits<int64_t>::max();
}

Tensor& random_(Tensor& self, Generator generator) {
  return integers(self, 0, default_bound(self.scalar_type()), generator);
}
Tensor& random_to(Tensor& self, int64_t to, Generator generator) { return integers(self, 0, to, generator); }
Tensor& random_from(Tensor& self, int64_t from, std::optional<int64_t> to, Generator generator) {
  return integers(self, from, to.value_or(default_bound(self.scalar_type())), generator);
}

Tensor& randperm_out(int64_t n, Generator generator, Tensor& out) {
  TORCH_CHECK(n >= 0, "randperm: n is ", n);
  const portable::Stream call = next_random_call(generator);
  const Tensor order = at::empty({n}, out.options().dtype(at::kLong));
  portable::permutation(order.mutable_data_ptr<int64_t>(), n, call, execution_on(order));
  return give(order, out);
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout: the probability is ", p);
  if (input.numel() == 0) return {input, at::empty_like(input)};
  const Tensor x = floats("native_dropout", input);
  Tensor out = new_like(x);
  Tensor mask = at::empty(x.sizes(), x.options().dtype(at::kBool));
  const double drop = train.value_or(true) ? p : 0;
  const portable::Stream call = next_random_call({});
  portable::dropout(out.mutable_data_ptr<float>(), mask.mutable_data_ptr<bool>(), x.const_data_ptr<float>(), x.numel(),
                    drop, call, execution_on(x, out, mask));
  return {in_layout_of(out, input), in_layout_of(mask, input)};
}

Tensor native_dropout_backward(const Tensor& gradient, const Tensor& mask, double scale) {
  const Tensor dy = floats("native_dropout_backward", gradient), kept = mask.contiguous();
  Tensor dx = new_like(dy);
  portable::dropout_backward(dx.mutable_data_ptr<float>(), dy.const_data_ptr<float>(), kept.const_data_ptr<bool>(),
                             dy.numel(), static_cast<float>(scale), execution_on(dy, kept));
  return laid_out_as_elements(dx, {gradient, mask});
}

// On the CPU, LibTorch composes dropout of a mask, a division and a product.
Tensor dropout(const Tensor& input, double p, bool train) {
  if (!train || p == 0 || input.numel() == 0) return input;
  return std::get<0>(at::native_dropout(input, p, true));
}

// NOLINTEND(performance-unnecessary-value-param)

}  // namespace

void register_random(OperatorRegistry& registry) {
  registry.replace("uniform_", uniform_);
  registry.replace("normal_", normal_);
  registry.replace("exponential_", exponential_);
  registry.replace("bernoulli_.float", bernoulli_);
  registry.replace_elementwise("bernoulli_.Tensor", bernoulli_each);
  registry.replace_elementwise("bernoulli", bernoulli);
  registry.replace_elementwise("bernoulli.out", bernoulli_out);
  registry.replace("random_", random_);
  registry.replace("random_.to", random_to);
  registry.replace("random_.from", random_from);
  registry.replace("randperm.generator_out", randperm_out);
  registry.replace("native_dropout", native_dropout);
  registry.replace("native_dropout_backward", native_dropout_backward);
  registry.replace_above_autograd("dropout", dropout);
}

}  // namespace estrain::operators
