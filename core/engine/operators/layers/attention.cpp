// Scaled dot-product attention with its own derivative (kernels/portable/attention.h): with dropout, LibTorch would
// compose attention of several operators.

#include "kernels/portable/attention.h"

#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/random_stream.h"
#include "core/engine/operators/registry.h"

namespace estrain::operators {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
namespace portable = kernels::portable;

// Returns [batch, heads, tokens, dim] with dim contiguous: the tensor itself, or a copy.
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

// Puts tokens before heads in memory, as the following projection reads the result.
Tensor new_by_tokens(const Tensor& like, int64_t tokens) {
  return new_floats({like.size(0), tokens, like.size(1), like.size(3)}, like).transpose(1, 2);
}

// Lays the output out like LibTorch's own kernel, since a traced program may depend on the layout: without dropout like
// the query, or contiguous if the query's channels are not adjacent.
Tensor new_output(const Tensor& query, double dropout) {
  if (dropout > 0) return new_by_tokens(query, query.size(2));
  return query.stride(3) == 1 ? at::empty_like(query) : new_like(query);
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
    Tensor y = new_output(query, settings.dropout);
    const Tensor statistics = new_floats({attention.batch, attention.heads, attention.queries, 2}, q);
    portable::attention(attention, {output(y), statistics.mutable_data_ptr<float>()},
                        execution_on(q, k, v, settings.mask));
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
    // The kernel's gradients have no graph: second gradients would silently lack a part.
    if (at::GradMode::is_enabled()) refuse_case("scaled_dot_product_attention", "gradients of gradients");
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
    portable::attention_backward(attention, backward, execution_on(q, k, v, saved[3], y, dy, statistics));
    return {dq, dk, dv, {}};
  }
};

// Turns [..., heads, tokens, dim] into [batch, heads, tokens, dim] for the kernel.
Tensor with_batch(const Tensor& x) {
  if (x.dim() == 4) return x;
  return x.dim() < 4 ? x.expand({1, x.dim() == 3 ? x.size(0) : 1, x.size(-2), x.size(-1)}) : x.flatten(0, -4);
}

// Returns the term to add to the scores. A boolean mask, true for the keys that a query attends to, becomes 0 and
// -infinity. The term keeps one dimension per dimension of the result.
Tensor additive(const Tensor& mask, const Tensor& query) {
  if (!mask.defined()) return mask;
  const Tensor lowest = at::scalar_tensor(-std::numeric_limits<float>::infinity(), query.options());
  Tensor added = mask.scalar_type() == at::kBool ? at::where(mask, at::zeros_like(lowest), lowest) : mask;
  if (query.dim() <= 4) return added;
  std::vector<int64_t> sizes = query.sizes().vec();
  sizes[sizes.size() - 2] = mask.size(-2);
  sizes.back() = mask.size(-1);
  return added.expand(sizes).flatten(0, -4);
}

// Returns whether the kernel fits: equal numbers of heads, equal widths, one batch, no gradient for the mask.
bool fits(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, bool causal) {
  if (query.dim() < 2 || key.dim() != query.dim() || value.dim() != query.dim()) return false;
  if (query.numel() == 0 || key.numel() == 0) return false;
  for (int64_t d = 0; d < query.dim() - 2; ++d) {
    if (query.size(d) != key.size(d) || query.size(d) != value.size(d)) return false;
  }
  const bool masked = mask.defined();
  return query.size(-1) == value.size(-1) &&
         !(masked &&
           (causal || mask.requires_grad() || (mask.scalar_type() != at::kFloat && mask.scalar_type() != at::kBool)));
}

// Repeats a key or value for all heads that share it: for (query heads / key heads) heads in a row.
Tensor for_every_head(const Tensor& x, const Tensor& query, bool grouped) {
  if (!grouped || x.dim() < 3 || x.size(-3) == query.size(-3)) return x;
  return x.repeat_interleave(query.size(-3) / x.size(-3), -3);
}

Tensor attention(const Tensor& query, const Tensor& shared_key, const Tensor& shared_value,
                 const std::optional<Tensor>& attn_mask, double dropout, bool causal, std::optional<double> scale,
                 bool grouped) {
  const Tensor mask = attn_mask.value_or(Tensor());
  const Tensor key = for_every_head(shared_key, query, grouped), value = for_every_head(shared_value, query, grouped);
  if (!fits(query, key, value, mask, causal)) {
    return std::get<0>(
        at::_scaled_dot_product_attention_math(query, key, value, attn_mask, dropout, causal, {}, scale, false));
  }
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  const Settings settings{additive(mask, query), dropout, causal, factor};
  const Tensor y = AttentionFunction::apply(with_batch(query), with_batch(key), with_batch(value), settings);
  std::vector<int64_t> sizes = query.sizes().vec();
  sizes.back() = value.size(-1);
  return query.dim() == 4 ? y : y.reshape(sizes);
}

}  // namespace

void register_attention(OperatorRegistry& registry) {
  registry.replace_above_autograd("scaled_dot_product_attention", attention);
}

}  // namespace estrain::operators
