// The portable attention against LibTorch's scaled_dot_product_attention, in one process, alternating. Without dropout
// LibTorch runs its flash kernel for CPUs, with dropout its composition of matrix products and softmax.
//
//   attention [--isa avx512|avx2|fma128|baseline] [--threads N] [--rounds N] [--filter TEXT] [--json]
//
// ratio = LibTorch's time / ours, of the fastest rounds (and of the medians): above 1 we are faster. LibTorch's own
// instruction set is limited from outside: ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 for --isa avx2.

#include "kernels/portable/attention.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "scripts/benchmarks/kernels/side_by_side.h"

namespace {

using namespace estrain::kernels;
using namespace estrain::benchmarks;

struct Shape {
  int64_t batch, heads, tokens, dim;
  bool causal;
  double dropout;
};

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (const double dropout : {0.0, 0.1}) {
    for (const bool causal : {true, false}) {
      out.push_back({8, 2, 64, 32, causal, dropout});
      out.push_back({8, 4, 128, 32, causal, dropout});
      out.push_back({4, 6, 256, 64, causal, dropout});
      out.push_back({1, 4, 1024, 64, causal, dropout});
    }
  }
  return out;
}

std::string name_of(const Shape& s) {
  return "(" + std::to_string(s.batch) + "," + std::to_string(s.heads) + "," + std::to_string(s.tokens) + "," +
         std::to_string(s.dim) + ")" + (s.causal ? " causal" : "") + (s.dropout > 0 ? " dropout" : "");
}

portable::AttentionInput input(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2)};
}
portable::AttentionOutput output(const at::Tensor& x) {
  return {x.mutable_data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2)};
}

// Query, key and value as a transformer's one projection gives them: views of [batch, tokens, 3 * heads * dim].
struct Data {
  explicit Data(const Shape& s)
      : joined(at::randn({s.batch, s.tokens, 3 * s.heads * s.dim})),
        query(part(s, 0)),
        key(part(s, 1)),
        value(part(s, 2)),
        out(tokens_first(s)),
        out_gradient(at::randn({s.batch, s.tokens, s.heads, s.dim}).transpose(1, 2)),
        statistics(at::empty({s.batch, s.heads, s.tokens, 2})) {
    for (at::Tensor& gradient : gradients) gradient = tokens_first(s);
    attention = {.batch = s.batch, .heads = s.heads, .queries = s.tokens, .keys = s.tokens, .dim = s.dim};
    attention.query = input(query);
    attention.key = input(key);
    attention.value = input(value);
    attention.causal = s.causal;
    attention.scale = 1 / std::sqrt(static_cast<float>(s.dim));
    attention.dropout.probability = s.dropout;
    forward = {output(out), statistics.data_ptr<float>()};
    backward = {input(out),           input(out_gradient),  statistics.data_ptr<float>(),
                output(gradients[0]), output(gradients[1]), output(gradients[2])};
  }
  at::Tensor part(const Shape& s, int64_t index) const {
    return joined.narrow(2, index * s.heads * s.dim, s.heads * s.dim)
        .view({s.batch, s.tokens, s.heads, s.dim})
        .transpose(1, 2);
  }
  static at::Tensor tokens_first(const Shape& s) {
    return at::empty({s.batch, s.tokens, s.heads, s.dim}).transpose(1, 2);
  }

  at::Tensor joined, query, key, value, out, out_gradient, statistics, gradients[3];
  portable::Attention attention;
  portable::AttentionForward forward;
  portable::AttentionBackward backward;
};

double difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return largest_difference(x.const_data_ptr<float>(), y.const_data_ptr<float>(), x.numel());
}

void measure_flash(const Shape& s, const Options& options, std::vector<Row>& rows) {
  Data d(s);
  const Execution execution = execution_of(options);
  at::Tensor out, logsumexp, dq, dk, dv;
  rows.push_back(alternate(
      name_of(s) + " forward", options, [&] { portable::attention(d.attention, d.forward, execution); },
      [&] {
        std::tie(out, logsumexp) =
            at::_scaled_dot_product_flash_attention_for_cpu(d.query, d.key, d.value, 0, s.causal);
      }));
  rows.back().difference = difference(d.out, out);
  rows.push_back(alternate(
      name_of(s) + " backward", options, [&] { portable::attention_backward(d.attention, d.backward, execution); },
      [&] {
        std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
            d.out_gradient, d.query, d.key, d.value, out, logsumexp, 0, s.causal);
      }));
  rows.back().difference =
      std::max({difference(d.gradients[0], dq), difference(d.gradients[1], dk), difference(d.gradients[2], dv)});
}

void measure_composed(const Shape& s, const Options& options, std::vector<Row>& rows) {
  Data d(s);
  const Execution execution = execution_of(options);
  rows.push_back(alternate(
      name_of(s) + " forward", options, [&] { portable::attention(d.attention, d.forward, execution); },
      [&] { at::scaled_dot_product_attention(d.query, d.key, d.value, {}, s.dropout, s.causal); }));
  const auto leaf = [](const at::Tensor& x) { return x.detach().requires_grad_(); };
  const at::Tensor query = leaf(d.query), key = leaf(d.key), value = leaf(d.value);
  rows.push_back(alternate(
      name_of(s) + " both", options,
      [&] {
        portable::attention(d.attention, d.forward, execution);
        portable::attention_backward(d.attention, d.backward, execution);
      },
      [&] {
        at::scaled_dot_product_attention(query, key, value, {}, s.dropout, s.causal).backward(d.out_gradient);
        for (const at::Tensor* x : {&query, &key, &value}) x->mutable_grad().reset();
      }));
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  at::set_num_threads(options.threads);
  Pool threads(options.threads);
  pool = &threads;
  std::vector<Row> rows;
  for (const Shape& shape : shapes()) {
    if (name_of(shape).find(options.filter) == std::string::npos) continue;
    shape.dropout > 0 ? measure_composed(shape, options, rows) : measure_flash(shape, options, rows);
  }
  if (rows.empty()) return 1;
  print("attention", rows, options);
  return 0;
}
