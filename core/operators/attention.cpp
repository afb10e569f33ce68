// Scaled dot-product attention with its own derivative (kernels/portable/attention.h): with dropout, LibTorch would
// compose it of other operators.

#include "kernels/portable/attention.h"

#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "core/operators/float_tensor.h"
#include "core/operators/random_stream.h"
#include "core/operators/registry.h"

namespace estrain::operators {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
namespace portable = kernels::portable;

// [batch, heads, tokens, dim] with dim contiguous: the tensor, or a copy.
Tensor by_tokens(const Tensor& x) {
  require_float("scaled_dot_product_attention", x);
  return x.stride(3) == 1 ? x : x.contiguous();
}

portable::AttentionInput input(const Tensor& x) {
  return {x.const_data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2)};
}
portable::AttentionOutput output(const Tensor& x) {
  return {x.mutable_data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2)};
}

// Puts tokens before heads in memory, as the following projection reads it.
Tensor new_by_tokens(const Tensor& like, int64_t tokens) {
  return new_floats({like.size(0), tokens, like.size(1), like.size(3)}, like).transpose(1, 2);
}

struct Settings {
  Tensor mask;  // float32, or undefined
  double dropout = 0;
  bool causal = false;
  double scale = 1;
};

portable::Attention describe(const Tensor& query, const Tensor& key, const Tensor& value, const Settings& settings) {
  portable::Attention attention;
  attention.batch = query.size(0);
  attention.heads = query.size(1);
  attention.queries = query.size(2);
  attention.keys = key.size(2);
  attention.dim = query.size(3);
  attention.query = input(query);
  attention.key = input(key);
  attention.value = input(value);
  if (settings.mask.defined()) {
    const Tensor mask = settings.mask.expand({attention.batch, attention.heads, attention.queries, attention.keys});
    attention.mask = {mask.const_data_ptr<float>(), mask.stride(0), mask.stride(1), mask.stride(2), mask.stride(3)};
  }
  attention.causal = settings.causal;
  attention.scale = static_cast<float>(settings.scale);
  attention.dropout.probability = settings.dropout;
  return attention;
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        const Settings& settings) {
    const Tensor q = by_tokens(query), k = by_tokens(key), v = by_tokens(value);
    portable::Attention attention = describe(q, k, v, settings);
    if (settings.dropout > 0) attention.dropout.stream = next_random_call({});
    const Tensor y = new_by_tokens(q, attention.queries);
    const Tensor statistics = new_floats({attention.batch, attention.heads, attention.queries, 2}, q);
    portable::attention(attention, {output(y), statistics.mutable_data_ptr<float>()}, execution_on(q));
    context->save_for_backward({q, k, v, settings.mask, y, statistics});
    const portable::Stream& stream = attention.dropout.stream;
    context->saved_data["dropout"] = settings.dropout;
    context->saved_data["causal"] = settings.causal;
    context->saved_data["scale"] = settings.scale;
    context->saved_data["key"] = static_cast<int64_t>(stream.key);
    context->saved_data["rank"] = static_cast<int64_t>(stream.rank);
    context->saved_data["call"] = static_cast<int64_t>(stream.call);
    context->saved_data["step"] = static_cast<int64_t>(stream.step);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &y = saved[4], &statistics = saved[5];
    auto& data = context->saved_data;
    portable::Attention attention =
        describe(q, k, v, {saved[3], data["dropout"].toDouble(), data["causal"].toBool(), data["scale"].toDouble()});
    attention.dropout.stream = {.key = static_cast<uint64_t>(data["key"].toInt()),
                                .rank = static_cast<uint32_t>(data["rank"].toInt()),
                                .call = static_cast<uint32_t>(data["call"].toInt()),
                                .step = static_cast<uint64_t>(data["step"].toInt())};
    const Tensor dy = by_tokens(gradients[0]);
    const Tensor dq = new_by_tokens(q, attention.queries), dk = new_by_tokens(k, attention.keys),
                 dv = new_by_tokens(v, attention.keys);
    portable::AttentionBackward backward;
    backward.output = input(y);
    backward.output_gradient = input(dy);
    backward.statistics = statistics.const_data_ptr<float>();
    backward.query_gradient = output(dq);
    backward.key_gradient = output(dk);
    backward.value_gradient = output(dv);
    portable::attention_backward(attention, backward, execution_on(q));
    return {dq, dk, dv, {}};
  }
};

// Whether the kernel supports the arguments: equal numbers of heads and equal widths everywhere, no gradient for the
// mask.
bool fits(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, bool causal) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4 || query.numel() == 0 || key.numel() == 0) return false;
  const bool masked = mask.defined();
  return query.size(1) == key.size(1) && query.size(1) == value.size(1) && query.size(3) == value.size(3) &&
         !(masked && (causal || mask.requires_grad() || mask.scalar_type() != at::kFloat));
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& attn_mask,
                 double dropout, bool causal, std::optional<double> scale, bool grouped) {
  const Tensor mask = attn_mask.value_or(Tensor());
  if (!fits(query, key, value, mask, causal)) {
    return std::get<0>(
        at::_scaled_dot_product_attention_math(query, key, value, attn_mask, dropout, causal, {}, scale, grouped));
  }
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  return AttentionFunction::apply(query, key, value, Settings{mask, dropout, causal, factor});
}

}  // namespace

void register_attention(Registry& registry) {
  registry.replace_above_autograd("scaled_dot_product_attention", attention);
}

}  // namespace estrain::operators
