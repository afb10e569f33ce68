#include "tests/simulated_gpu/random_operators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "tests/simulated_gpu/machine.h"

namespace estrain::simulated {
namespace {

using at::Tensor;
using torch::jit::Stack;

at::Generator generator_of(const Philox& numbers) {
  return at::detail::createCPUGenerator(numbers.seed * 1'000'003 + numbers.offset);
}

// 0 for dropped elements, 1 / (1 - p) for the others; float32
Tensor factors(at::IntArrayRef sizes, double p, const Philox& numbers) {
  if (p == 0) return at::ones(sizes, at::kFloat);
  return at::empty(sizes, at::kFloat).bernoulli_(1 - p, generator_of(numbers)).mul_(1 / (1 - p));
}

// (self, p, generator); likewise the next two
Stack bernoulli(const Stack& given, const Philox& numbers) {
  return {at::empty_like(given[0].toTensor()).bernoulli_(given[1].toDouble(), generator_of(numbers))};
}
Stack uniform(const Stack& given, const Philox& numbers) {
  return {
      at::empty_like(given[0].toTensor()).uniform_(given[1].toDouble(), given[2].toDouble(), generator_of(numbers))};
}
Stack normal(const Stack& given, const Philox& numbers) {
  return {at::empty_like(given[0].toTensor()).normal_(given[1].toDouble(), given[2].toDouble(), generator_of(numbers))};
}

// (input, p, train)
Stack dropout(const Stack& given, const Philox& numbers) {
  const Tensor input = given[0].toTensor();
  if (!given[2].toBool()) return {input.clone(), at::ones_like(input, at::kBool)};
  const Tensor factor = factors(input.sizes(), given[1].toDouble(), numbers);
  return {input.mul(factor), factor.ne(0)};
}

// Scaled dot-product attention, in float32.
struct Attention {
  Tensor query, key, value;  // [batch, heads, tokens, size]
  double dropped;
  bool is_causal;
  double scale;
  Tensor bias;  // of the scores

  // `first`: position of the query among the arguments. The bias may be None.
  Attention(const Stack& given, size_t first, const c10::IValue& dropped_with, const c10::IValue& causal,
            const c10::IValue& scaled, const c10::IValue& biased = {})
      : query(given[first].toTensor().to(at::kFloat)),
        key(given[first + 1].toTensor().to(at::kFloat)),
        value(given[first + 2].toTensor().to(at::kFloat)),
        dropped(dropped_with.toDouble()),
        is_causal(causal.toBool()),
        scale(scaled.isNone() ? 1 / std::sqrt(static_cast<double>(query.size(3))) : scaled.toDouble()),
        bias(biased.isTensor() && biased.toTensor().defined() ? biased.toTensor().to(at::kFloat) : Tensor()) {}

  Tensor scores() const {
    Tensor all = query.matmul(key.transpose(2, 3)).mul_(scale);
    if (bias.defined()) all.add_(bias);
    if (!is_causal) return all;
    const Tensor later = at::ones({all.size(2), all.size(3)}, at::kBool).triu_(1);
    return all.masked_fill(later, -std::numeric_limits<double>::infinity());
  }

  struct Forward {
    Tensor output, logsumexp;
  };
  Forward forward(const Philox& numbers) const {
    const Tensor all = scores(), logsumexp = all.logsumexp(-1);
    const Tensor weights = all.sub(logsumexp.unsqueeze(-1)).exp_();
    return {weights.mul(factors(weights.sizes(), dropped, numbers)).matmul(value), logsumexp};
  }

  struct Gradients {
    Tensor query, key, value, bias;
  };
  Gradients backward(const Tensor& of_output, const Tensor& logsumexp, const Philox& numbers) const {
    const Tensor gradient = of_output.to(at::kFloat);
    const Tensor weights = scores().sub_(logsumexp.slice(2, 0, query.size(2)).unsqueeze(-1)).exp_();
    const Tensor factor = factors(weights.sizes(), dropped, numbers);
    const Tensor of_weights = gradient.matmul(value.transpose(2, 3)).mul_(factor);
    const Tensor along_rows = of_weights.mul(weights).sum(-1, /*keepdim=*/true);
    const Tensor of_bias = of_weights.sub(along_rows).mul_(weights), of_scores = of_bias.mul(scale);
    return {of_scores.matmul(key), of_scores.transpose(2, 3).matmul(query),
            weights.mul(factor).transpose(2, 3).matmul(gradient), of_bias};
  }
};

Tensor number(uint64_t value) { return at::scalar_tensor(static_cast<int64_t>(value), at::kLong); }
uint64_t number_in(const Tensor& tensor) {
  return static_cast<uint64_t>(tensor.to(at::kLong).reshape({-1})[0].item<int64_t>());
}

constexpr int64_t kMultipleOfRows = 32;  // LibTorch rounds up the rows of logsumexp

// (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, *, scale)
//   -> (output, log_sumexp, philox_seed, philox_offset)
Stack efficient_attention(const Stack& given, const Philox& numbers) {
  auto [output, logsumexp] = Attention(given, 0, given[5], given[6], given[7], given[3]).forward(numbers);
  const int64_t missing = (kMultipleOfRows - logsumexp.size(2) % kMultipleOfRows) % kMultipleOfRows;
  logsumexp = given[4].toBool() ? at::constant_pad_nd(logsumexp, {0, missing}) : Tensor();
  return {output, logsumexp, number(numbers.seed), number(numbers.offset)};
}

// (grad_out, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p, grad_input_mask,
// is_causal, *, scale) -> (grad_query, grad_key, grad_value, grad_attn_bias)
Stack efficient_attention_backward(const Stack& given, const Philox&) {
  const Philox numbers{number_in(given[7].toTensor()), number_in(given[8].toTensor())};
  const auto [query, key, value, bias] = Attention(given, 1, given[9], given[11], given[12], given[4])
                                             .backward(given[0].toTensor(), given[6].toTensor(), numbers);
  return {query, key, value, given[10].toBoolList().get(3) ? bias : Tensor()};
}

// (query, key, value, dropout_p, is_causal, return_debug_mask, *, scale)
//   -> (output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, rng_state, unused, debug_attn_mask)
Stack flash_attention(const Stack& given, const Philox& numbers) {
  const auto [output, logsumexp] = Attention(given, 0, given[3], given[4], given[6]).forward(numbers);
  const Tensor state = at::stack({number(numbers.seed), number(numbers.offset)});
  return {output, logsumexp, Tensor(), Tensor(), c10::IValue(), c10::IValue(), state, Tensor(), Tensor()};
}

// (grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, rng_state,
// unused, *, scale) -> (grad_query, grad_key, grad_value)
Stack flash_attention_backward(const Stack& given, const Philox&) {
  const Attention attention(given, 1, given[10], given[11], given[14]);
  Philox numbers{};
  if (attention.dropped > 0) {
    const Tensor state = given[12].toTensor();
    numbers = {number_in(state[0]), number_in(state[1])};
  }
  const auto [query, key, value, bias] = attention.backward(given[0].toTensor(), given[5].toTensor(), numbers);
  return {query, key, value};
}

const std::map<std::string, Drawing> kDrawings = {
    {"aten::native_dropout", dropout},
    {"aten::bernoulli_.float", bernoulli},
    {"aten::uniform_", uniform},
    {"aten::normal_", normal},
    {"aten::_scaled_dot_product_efficient_attention", efficient_attention},
    {"aten::_scaled_dot_product_efficient_attention_backward", efficient_attention_backward},
    {"aten::_scaled_dot_product_flash_attention", flash_attention},
    {"aten::_scaled_dot_product_flash_attention_backward", flash_attention_backward},
};

}  // namespace

Drawing drawing_of(const c10::OperatorHandle& op) {
  const auto found = kDrawings.find(toString(op.operator_name()));
  if (found != kDrawings.end()) return found->second;
  if (op.hasTag(at::Tag::nondeterministic_seeded)) fail("random numbers of " + toString(op.operator_name()));
  return nullptr;
}

}  // namespace estrain::simulated
