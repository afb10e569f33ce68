// Attention (kernels/portable/attention.h): scores, weights and outputs are matrix products by product.h, over as many
// heads at a time as fit into scratch memory; between the products one warp processes each row. The softmax is not
// FlashAttention's online softmax: the order of an online softmax depends on tiles. So scores go through memory.

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/lanes.h"
#include "kernels/cuda/product.h"
#include "kernels/portable/arithmetic/draws.h"
#include "kernels/portable/arithmetic/exp.h"
#include "kernels/portable/philox.h"

namespace estrain::kernels::cuda {
namespace {

using portable::Attention;
using portable::AttentionBackward;
using portable::AttentionForward;
using portable::AttentionInput;
using portable::AttentionOutput;

constexpr int64_t kMostScores = int64_t{1} << 26;  // floats of scratch memory

// The terms of a row, with or without a causal mask.
struct KeyTerms {  // a row is a query, the row's terms are keys
  static constexpr bool whole = false;
  int64_t keys;
  bool causal;
  __host__ __device__ int64_t begin(int64_t) const { return 0; }
  __host__ __device__ int64_t end(int64_t query) const { return causal ? portable::causal_terms(query, keys) : keys; }
  __host__ __device__ bool wanted(int64_t, int64_t) const { return true; }
};
struct QueryTerms {  // a row is a key, the row's terms are queries
  static constexpr bool whole = false;
  int64_t queries;
  bool causal;
  __host__ __device__ int64_t begin(int64_t key) const { return causal ? portable::first_causal_query(key) : 0; }
  __host__ __device__ int64_t end(int64_t) const { return queries; }
  __host__ __device__ bool wanted(int64_t, int64_t) const { return true; }
};
struct ScoreTerms {  // a row is a query, a column a key, terms are channels
  static constexpr bool whole = true;
  int64_t dim, keys;
  bool causal;
  __host__ __device__ int64_t begin(int64_t) const { return 0; }
  __host__ __device__ int64_t end(int64_t) const { return dim; }
  __host__ __device__ bool wanted(int64_t last_query, int64_t first_key) const {
    return !causal || first_key < portable::causal_terms(last_query, keys);
  }
};

// Heads [first, first + count) of all heads of all batches; z is the index within the range.
struct Heads {
  int64_t first, count, heads;
  __host__ __device__ int64_t batch_of(int64_t z) const { return (first + z) / heads; }
  __host__ __device__ int64_t head_of(int64_t z) const { return (first + z) % heads; }
};

// Tokens as an operand: tokens are lanes and channels steps, or vice versa.
template <bool steps_adjacent>
struct Tokens : Strided<steps_adjacent> {
  int64_t head_stride;
  Heads heads;

  __device__ void select(int64_t z) {
    this->data += heads.batch_of(z) * this->batch_stride + heads.head_of(z) * head_stride;
  }
};
template <bool steps_adjacent>
Tokens<steps_adjacent> tokens(const AttentionInput& x, const Heads& heads) {
  Tokens<steps_adjacent> out = {};
  out.data = x.data;
  out.lane_stride = steps_adjacent ? x.token_stride : 1;
  out.step_stride = steps_adjacent ? 1 : x.token_stride;
  out.quads = in_quads(x.data, 1, x.token_stride, x.head_stride, x.batch_stride);
  out.batch_stride = x.batch_stride;
  out.head_stride = x.head_stride;
  out.heads = heads;
  return out;
}

// scores[z][query][key] = scale * total, + mask
struct ScoreOutput {
  float* scores;
  int64_t queries, keys;
  float scale;
  portable::AttentionMask mask;
  Heads heads;
  bool quads;

  __device__ void select(int64_t z) {
    scores += z * queries * keys;
    if (mask.data != nullptr) mask.data += heads.batch_of(z) * mask.batch_stride + heads.head_of(z) * mask.head_stride;
  }
  __device__ int64_t column(int64_t c) const { return c; }
  __device__ float* at(int64_t row, int64_t place) const { return scores + row * keys + place; }
  __device__ float result(int64_t row, int64_t place, float total) const {
    const float scaled = scale * total;
    return mask.data == nullptr ? scaled : scaled + mask.data[row * mask.query_stride + place * mask.key_stride];
  }
};

// Rows of tokens: total * factor, or total * factors[z][row]; +0 for rows from `without_terms` on.
struct TokenOutput {
  AttentionOutput to;
  int64_t rows, without_terms;
  float factor;
  const float* factors;  // null: `factor`
  Heads heads;
  bool quads;

  __device__ void select(int64_t z) {
    to.data += heads.batch_of(z) * to.batch_stride + heads.head_of(z) * to.head_stride;
    if (factors != nullptr) factors += z * rows;
  }
  __device__ int64_t column(int64_t c) const { return c; }
  __device__ float* at(int64_t row, int64_t place) const { return to.data + row * to.token_stride + place; }
  __device__ float result(int64_t row, int64_t, float total) const {
    const float scaled = total * (factors == nullptr ? factor : factors[row]);
    return row >= without_terms ? 0.0f : scaled;
  }
};

// For AttentionInput and AttentionOutput.
template <typename Tensor>
bool in_quads(const Tensor& x) {
  return cuda::in_quads(x.data, 1, x.token_stride, x.head_stride, x.batch_stride);
}

// Arguments of the kernels for rows of scores.
struct Rows {
  Heads heads;
  int64_t queries, keys;
  bool causal, drops;
  float keep, keep_scale;
  PhiloxCounter counter;

  __host__ __device__ int64_t count() const { return heads.count * queries; }
  __device__ int64_t terms(int64_t query) const { return causal ? portable::causal_terms(query, keys) : keys; }
  __device__ int64_t allowed(int64_t query) const { return causal && query + 1 < keys ? query + 1 : keys; }
  // `row` is an index within the current rows.
  __device__ bool kept(int64_t row, int64_t key) const {
    if (!drops) return true;
    const int64_t drawn = portable::round_up(keys, portable::kDrawnKeys);
    const PhiloxPlace place = philox_place((heads.first * queries + row) * drawn + key);
    return unit_below_one(philox_block(counter, place.block).word[place.word]) < keep;
  }
};
Rows rows_of(const Attention& a, const Heads& heads) {
  const double p = a.dropout.probability;
  const portable::Stream& s = a.dropout.stream;
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  return {heads,
          a.queries,
          a.keys,
          a.causal,
          p > 0,
          static_cast<float>(1 - p),
          p == 0   ? 1.0f
          : p == 1 ? 0.0f
                   : static_cast<float>(1 / (1 - p)),
          {{low(s.key), low(s.key >> 32) ^ low(s.step >> 32)}, {s.call, low(s.step), s.rank}}};
}

// Turns scores into weights. statistics[row][2] may be null.
__global__ void weigh_row(Rows r, float* scores, float* statistics, float* factors) {
  const int64_t row = warp_index();
  if (row >= r.count()) return;
  const int64_t query = row % r.queries, terms = r.terms(query), allowed = r.allowed(query);
  const int lane = static_cast<int>(threadIdx.x);
  float* s = scores + row * r.keys;
  float most = -__builtin_inff();
  for (int64_t j = lane; j < allowed; j += 32) most = s[j] > most ? s[j] : most;
  most = lane_largest(most);
  most = most == -__builtin_inff() ? 0.0f : most + 0.0f;
  float sum = 0;
  for (int64_t j = lane; j < terms; j += 32) {
    const float e = j < allowed ? exponential(s[j] - most) : 0.0f;
    sum = sum + e;
    s[j] = r.kept(row, j) ? e : 0.0f;
  }
  sum = lane_total(sum);
  const float inverse = sum == 0 ? 0.0f : 1.0f / sum;
  if (lane != 0) return;
  factors[row] = inverse * r.keep_scale;
  if (statistics == nullptr) return;
  statistics[2 * (r.heads.first * r.queries + row)] = most;
  statistics[2 * (r.heads.first * r.queries + row) + 1] = inverse;
}

// Returns a sum over channels c, begin <= c < end.
__device__ float dot(const float* a, const float* b, int64_t begin, int64_t end, bool quads) {
  float sum = 0;
  int64_t c = begin;
  if (quads) {
#pragma unroll 4
    for (; c + kQuad <= end; c += kQuad) {
      const Four x = *reinterpret_cast<const Four*>(a + c), y = *reinterpret_cast<const Four*>(b + c);
#pragma unroll
      for (int i = 0; i < kQuad; ++i) sum = fused(x.of[i], y.of[i], sum);
    }
  }
  for (; c < end; ++c) sum = fused(a[c], b[c], sum);
  return sum;
}

// Computes D of each row.
__global__ void dot_rows(Rows r, AttentionInput x, AttentionInput y, int64_t dim, bool quads, float* dots) {
  const int64_t row = thread_index();
  if (row >= r.count()) return;
  const int64_t z = row / r.queries, query = row % r.queries, batch = r.heads.batch_of(z), head = r.heads.head_of(z);
  const float* a = x.data + batch * x.batch_stride + head * x.head_stride + query * x.token_stride;
  const float* b = y.data + batch * y.batch_stride + head * y.head_stride + query * y.token_stride;
  float total = 0;
  for (int64_t begin = 0; begin < dim; begin += kBlock) {
    const int64_t end = begin + kBlock < dim ? begin + kBlock : dim;
    const float sum = dot(a, b, begin, end, quads);
    total = begin == 0 ? sum : total + sum;
  }
  dots[row] = total;
}

// Turns scores into w, and gradients into z.
__global__ void differentiate_rows(Rows r, float* scores, float* gradients, const float* statistics,
                                   const float* dots) {
  const int64_t row = warp_index();
  if (row >= r.count()) return;
  const int64_t query = row % r.queries, terms = r.terms(query), allowed = r.allowed(query);
  float* s = scores + row * r.keys;
  float* g = gradients + row * r.keys;
  const float* statistic = statistics + 2 * (r.heads.first * r.queries + row);
  const float most = statistic[0], inverse = statistic[1], dot = dots[row], kept_inverse = inverse * r.keep_scale;
  for (int64_t j = threadIdx.x; j < terms; j += 32) {
    const bool kept = r.kept(row, j);
    const float gradient = !r.drops ? g[j] : kept ? g[j] * r.keep_scale : 0.0f;
    const float e = exponential(s[j] - most), p = e * inverse;
    s[j] = j < allowed && kept ? (r.drops ? e * kept_inverse : p) : 0.0f;
    g[j] = j < allowed ? p * (gradient - dot) : 0.0f;
  }
}

// Calls body(heads) for groups of heads, each group small enough for `arrays` arrays of scores to fit.
template <typename Body>
void for_heads(const Attention& a, int64_t arrays, Body body) {
  const int64_t all = a.batch * a.heads, each = a.queries * a.keys * arrays;
  const int64_t fit = each == 0 ? all : kMostScores / each;
  const int64_t at_once = fit < 1 ? 1 : fit < all ? fit : all;
  for (int64_t first = 0; first < all; first += at_once) {
    body(Heads{first, first + at_once < all ? at_once : all - first, a.heads});
  }
}

void score(const Attention& a, const Heads& heads, const AttentionInput& x, const AttentionInput& y, float scale,
           const portable::AttentionMask& mask, float* to, const DeviceQueue& queue) {
  const ScoreOutput out = {to, a.queries, a.keys, scale, mask, heads, a.keys % kQuad == 0};
  multiply_ranges("attention_scores", ProductSizes{heads.count, a.queries, a.keys}, a.dim, tokens<true>(x, heads),
                  tokens<true>(y, heads), out, ScoreTerms{a.dim, a.keys, a.causal}, queue);
}

// to[query] = factor * weights[query][key] . x[key]
void weigh_keys(const Attention& a, const Heads& heads, const float* weights, const AttentionInput& x,
                const AttentionOutput& to, float factor, const float* factors, const DeviceQueue& queue) {
  const Strided<true> rows = {weights, a.keys, 1, a.queries * a.keys, a.keys % kQuad == 0};
  const TokenOutput out = {to, a.queries, a.queries, factor, factors, heads, in_quads(to)};
  multiply_ranges("attention_keys", ProductSizes{heads.count, a.queries, a.dim}, a.keys, rows, tokens<false>(x, heads),
                  out, KeyTerms{a.keys, a.causal}, queue);
}

// to[key] = factor * weights[query][key] . x[query]
void weigh_queries(const Attention& a, const Heads& heads, const float* weights, const AttentionInput& x,
                   const AttentionOutput& to, float factor, const DeviceQueue& queue) {
  const Strided<false> rows = {weights, 1, a.keys, a.queries * a.keys, a.keys % kQuad == 0};
  const int64_t reached = a.queries == 0 ? 0 : a.causal ? portable::round_up(a.queries, portable::kCausalRows) : a.keys;
  const TokenOutput out = {to, a.keys, reached, factor, nullptr, heads, in_quads(to)};
  multiply_ranges("attention_queries", ProductSizes{heads.count, a.keys, a.dim}, a.queries, rows,
                  tokens<false>(x, heads), out, QueryTerms{a.queries, a.causal}, queue);
}

void forward(const Attention& a, const AttentionForward& out, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  for_heads(a, 1, [&](const Heads& heads) {
    const Scratch<float> scores(queue, heads.count * a.queries * a.keys), factors(queue, heads.count * a.queries);
    score(a, heads, a.query, a.key, a.scale, a.mask, scores.get(), queue);
    launch("attention_softmax", queue, grid_of_warps(heads.count * a.queries), weigh_row, rows_of(a, heads),
           scores.get(), out.statistics, factors.get());
    weigh_keys(a, heads, scores.get(), a.value, out.output, 1, factors.get(), queue);
  });
}

void backward(const Attention& a, const AttentionBackward& b, const Execution& execution) {
  const DeviceQueue& queue = queue_of(execution);
  for_heads(a, 2, [&](const Heads& heads) {
    const int64_t rows = heads.count * a.queries;
    const Scratch<float> scores(queue, rows * a.keys), gradients(queue, rows * a.keys), dots(queue, rows);
    launch("attention_dots", queue, grid_for(rows), dot_rows, rows_of(a, heads), b.output_gradient, b.output, a.dim,
           in_quads(b.output_gradient) && in_quads(b.output), dots.get());
    score(a, heads, a.query, a.key, a.scale, a.mask, scores.get(), queue);
    score(a, heads, b.output_gradient, a.value, 1, {}, gradients.get(), queue);
    launch("attention_gradients", queue, grid_of_warps(rows), differentiate_rows, rows_of(a, heads), scores.get(),
           gradients.get(), b.statistics, dots.get());
    if (b.query_gradient.data != nullptr) {
      weigh_keys(a, heads, gradients.get(), a.key, b.query_gradient, a.scale, nullptr, queue);
    }
    if (b.key_gradient.data != nullptr) {
      weigh_queries(a, heads, gradients.get(), a.query, b.key_gradient, a.scale, queue);
    }
    if (b.value_gradient.data != nullptr) {
      weigh_queries(a, heads, scores.get(), b.output_gradient, b.value_gradient, 1, queue);
    }
  });
}

}  // namespace

extern const AttentionLoops attention_kernels = {.forward = forward, .backward = backward};

}  // namespace estrain::kernels::cuda
