#include "kernels/portable/loops/attention.h"

#include "kernels/portable/arithmetic/exp.h"
#include "kernels/portable/loops/lanes.h"
#include "kernels/portable/loops/pack.h"
#include "kernels/portable/loops/philox.h"
#include "kernels/portable/loops/product.h"
#include "kernels/portable/loops/tasks.h"
#include "kernels/portable/order.h"
#include "kernels/workspace.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

using portable::Attention;
using portable::AttentionBackward;
using portable::AttentionForward;
using portable::AttentionInput;
using portable::AttentionMask;
using portable::AttentionOutput;
using portable::kBlock;

constexpr int64_t causal_rows = portable::kCausalRows;
constexpr int64_t lanes_of_vector = static_cast<int64_t>(width);
constexpr int64_t scores_in_cache = 1 << 15;  // floats

enum Slot : int { packed_slot = 2, scores_slot, gradients_slot, rows_slot };

inline int64_t rounded_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

// One head's matrices: element (token, channel).
struct Head {
  int64_t batch, head;
  const float* of(const AttentionInput& x) const { return x.data + batch * x.batch_stride + head * x.head_stride; }
  float* of(const AttentionOutput& x) const { return x.data + batch * x.batch_stride + head * x.head_stride; }
  const float* of(const AttentionMask& x) const { return x.data + batch * x.batch_stride + head * x.head_stride; }
};

inline Head head_of(const Attention& a, int64_t index) { return {index / a.heads, index % a.heads}; }

// random.h's key and counter for a call.
inline PhiloxCounter counter_of(const portable::Stream& stream) {
  return {{static_cast<uint32_t>(stream.key),
           static_cast<uint32_t>(stream.key >> 32) ^ static_cast<uint32_t>(stream.step >> 32)},
          {stream.call, static_cast<uint32_t>(stream.step), stream.rank}};
}

// Calls body(j, kept) for each vector of elements first + j, for j from 0 to n rounded up to a multiple of 64; `first`
// is a multiple of 64. Lanes of `kept` are -1 or 0.
template <typename Body>
inline void for_drawn(const portable::AttentionDropout& dropout, int64_t first, int64_t n, Body body) {
  constexpr int64_t lanes = static_cast<int64_t>(width);
  const Floats keep = broadcast(static_cast<float>(1 - dropout.probability));
  const PhiloxCounter counter = counter_of(dropout.stream);
  for (int64_t j = 0; j < n; j += 64) {
    for (int64_t part = 0; part < 16; part += lanes) {
      Bits words[4];
      philox_blocks(counter, static_cast<uint32_t>((first + j) / 4 + part), words);
      for (int64_t w = 0; w < 4; ++w) {
        body(j + 16 * w + part, __builtin_bit_cast(Integers, unit_below_one(words[w]) < keep));
      }
    }
  }
}

// A range of queries with the same keys as terms.
struct Rows {
  int64_t begin, end, keys;
  int64_t count() const { return end - begin; }
};

// Calls body(rows) for the ranges within [begin, end).
template <typename Body>
inline void for_rows(const Attention& a, int64_t begin, int64_t end, Body body) {
  if (!a.causal) return body(Rows{begin, end, a.keys});
  while (begin < end) {
    const int64_t next = least(end, (begin / causal_rows + 1) * causal_rows);
    body(Rows{begin, next, least(a.keys, rounded_up(next, causal_rows))});
    begin = next;
  }
}

inline int64_t allowed_keys(const Attention& a, int64_t query) { return a.causal ? least(query + 1, a.keys) : a.keys; }
// Dropout draws for 64 keys at a time.
inline int64_t drawn_keys(const Attention& a) { return rounded_up(a.keys, portable::kDrawnKeys); }
// The distance between rows of scores. Not a power of two, which would map all rows to the same cache sets.
inline int64_t score_stride(const Attention& a) { return drawn_keys(a) + 16; }

// Transposes to [channel][key]: scores are then a product with lanes over keys.
inline void transpose_tokens(const Attention& a, const float* x, int64_t token_stride, float* to) {
  pack_lanes(to, score_stride(a), {x, token_stride, 1}, a.keys, a.dim);
}

// to[query][key] = scale * (x . y) + mask for the rows. `y` is transposed; `to` begins with row rows.begin.
inline void score(const Attention& a, const Rows& rows, const float* x, int64_t token_stride, const float* y,
                  float scale, const float* mask, float* to) {
  Product p;
  p.m = rows.count();
  // Without a mask, computes whole vectors of keys: the results after the last key are never read.
  p.n = mask == nullptr ? rounded_up(rows.keys, lanes_of_vector) : rows.keys;
  p.k = a.dim;
  p.a = {x + rows.begin * token_stride, token_stride, 1};
  p.b = {y, score_stride(a), 1};
  p.c = to;
  p.c_row_stride = score_stride(a);
  p.alpha = scale;
  if (mask != nullptr) {
    p.beta = 1;
    p.d = {mask + rows.begin * a.mask.query_stride, a.mask.query_stride, a.mask.key_stride};
  }
  multiply(p);
}

// to[query][channel] = alpha * weights [query][key] . x [key][channel]
inline void weigh_tokens(const Attention& a, const Rows& rows, const float* weights, const float* x,
                         int64_t token_stride, float alpha, float* to, int64_t to_stride) {
  Product p;
  p.m = rows.count();
  p.n = a.dim;
  p.k = rows.keys;
  p.a = {weights, score_stride(a), 1};
  p.b = {x, token_stride, 1};
  p.c = to + rows.begin * to_stride;
  p.c_row_stride = to_stride;
  p.alpha = alpha;
  multiply(p);
}

inline float largest(const float* x, int64_t n) {
  constexpr float infinity = __builtin_inff();
  Floats most[4] = {broadcast(-infinity), broadcast(-infinity), broadcast(-infinity), broadcast(-infinity)};
  int64_t i = 0;
  for (; i + 4 * lanes_of_vector <= n; i += 4 * lanes_of_vector) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const Floats y = load(x + i + v * lanes_of_vector);
      most[v] = y > most[v] ? y : most[v];
    }
  }
  for (; i < n; i += lanes_of_vector) {
    const size_t left = static_cast<size_t>(least(lanes_of_vector, n - i));
    const Floats y = left == width ? load(x + i) : blend(left, load(x + i, left), broadcast(-infinity));
    most[0] = y > most[0] ? y : most[0];
  }
#pragma GCC unroll 4
  for (int v = 1; v < 4; ++v) most[0] = most[v] > most[0] ? most[v] : most[0];
  float out = -infinity;
  for (size_t lane = 0; lane < width; ++lane) out = most[0][lane] > out ? most[0][lane] : out;
  return out == -infinity ? 0 : out + 0.0f;  // + 0: the maximum may be +0 or -0, depending on the order of the scores
}

// Stores e = exp(s - most) for `allowed` keys, +0 for the others up to the next multiple of 32; returns the sum.
inline float exponentials(float* s, int64_t allowed, int64_t keys, float most) {
  Floats sums[kLaneVectors] = {};
  const Floats shift = broadcast(most);
  int64_t j = 0;
  for (; j + kLanes <= allowed; j += kLanes) {
#pragma GCC unroll 8
    for (int v = 0; v < kLaneVectors; ++v) {
      float* at = s + j + v * lanes_of_vector;
      const Floats e = exponential(load(at) - shift);
      store(at, e);
      sums[v] = sums[v] + e;
    }
  }
  for (; j < keys; j += kLanes) {
#pragma GCC unroll 8
    for (int v = 0; v < kLaneVectors; ++v) {
      float* at = s + j + v * lanes_of_vector;
      const int64_t left = allowed - j - v * lanes_of_vector;
      Floats e = broadcast(0);
      if (left > 0) {
        e = blend(static_cast<size_t>(least(left, lanes_of_vector)), exponential(load(at) - shift), broadcast(0));
      }
      store(at, e);
      sums[v] = sums[v] + e;
    }
  }
  return lane_total(sums)[0];
}

inline int64_t dropout_row(const Attention& a, const Head& head, int64_t query) {
  return ((head.batch * a.heads + head.head) * a.queries + query) * drawn_keys(a);
}

inline float keep_scale(const Attention& a) {
  if (a.dropout.probability == 0) return 1;
  return a.dropout.probability == 1 ? 0 : static_cast<float>(1 / (1 - a.dropout.probability));
}

inline void multiply_row(float* x, int64_t n, float factor) {
  for_vectors(0, static_cast<size_t>(n),
              [&](size_t i, auto part) { part.write(x + i, part.read(x + i) * broadcast(factor)); });
}

// Turns scores into weights, a row at a time; factors[row] is the factor of the row's output.
inline void softmax(const Attention& a, const Head& head, const Rows& rows, float* scores, float* statistics,
                    float* factors) {
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    float* s = scores + (i - rows.begin) * score_stride(a);
    const float most = largest(s, allowed_keys(a, i));
    const float sum = exponentials(s, allowed_keys(a, i), rows.keys, most);
    const float inverse = sum == 0 ? 0 : 1 / sum;
    if (a.dropout.probability > 0) {
      for_drawn(a.dropout, dropout_row(a, head, i), rows.keys,
                [&](int64_t j, Integers kept) { store(s + j, kept ? load(s + j) : broadcast(0)); });
    }
    if (statistics != nullptr) statistics[2 * i] = most, statistics[2 * i + 1] = inverse;
    factors[i - rows.begin] = inverse * keep_scale(a);
  }
}

// Processes queries [begin, end) of a head; `keys` is the head's key, transposed.
void forward_rows(const Attention& a, const AttentionForward& out, const Head& head, const float* keys, int64_t begin,
                  int64_t end) {
  const int64_t stride = score_stride(a);
  float* const scores = workspace(scores_slot, static_cast<size_t>((end - begin) * stride));
  float* const factors = workspace(rows_slot, static_cast<size_t>(end - begin));
  float* const output = head.of(out.output);
  float* statistics = nullptr;
  if (out.statistics != nullptr) statistics = out.statistics + 2 * (head.batch * a.heads + head.head) * a.queries;
  const float* const mask = a.mask.data == nullptr ? nullptr : head.of(a.mask);
  for_rows(a, begin, end, [&](const Rows& rows) {
    score(a, rows, head.of(a.query), a.query.token_stride, keys, a.scale, mask, scores);
    softmax(a, head, rows, scores, statistics, factors);
    weigh_tokens(a, rows, scores, head.of(a.value), a.value.token_stride, 1, output, out.output.token_stride);
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      multiply_row(output + i * out.output.token_stride, a.dim, factors[i - rows.begin]);
    }
  });
}

// The start of the part of `all` for `task` of `tasks`.
inline int64_t share(int64_t all, int64_t task, int64_t tasks) { return all * task / tasks; }

inline int64_t tasks_for(const Attention& a, const Execution& execution, int64_t units) {
  const double work = static_cast<double>(a.batch * a.heads) * static_cast<double>(a.queries) *
                      static_cast<double>(a.keys) * static_cast<double>(a.dim);
  if (execution.run == nullptr || work < (1 << 19)) return 1;
  return least(execution.threads, units);
}

void forward(const Attention& a, const AttentionForward& out, const Execution& execution) {
  if (a.batch * a.heads * a.queries == 0) return;
  const int64_t stride = score_stride(a);
  const int64_t fit = scores_in_cache / stride / causal_rows * causal_rows;
  const int64_t rows = least(a.queries, fit < causal_rows ? causal_rows : fit > kBlock ? kBlock : fit);
  const int64_t parts = ceil_div(a.queries, rows), units = a.batch * a.heads * parts;
  const int64_t tasks = tasks_for(a, execution, units);
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    float* const keys = workspace(packed_slot, static_cast<size_t>(a.dim * stride + lanes_of_vector));
    int64_t packed = -1;
    for (int64_t unit = share(units, task, tasks); unit < share(units, task + 1, tasks); ++unit) {
      const Head head = head_of(a, unit / parts);
      if (packed != unit / parts) transpose_tokens(a, head.of(a.key), a.key.token_stride, keys);
      packed = unit / parts;
      const int64_t begin = unit % parts * rows;
      forward_rows(a, out, head, keys, begin, least(begin + rows, a.queries));
    }
  });
}

// Scratch memory of the backward pass of one head, for a block of up to 256 queries.
struct BackwardScratch {
  float *keys, *values;  // transposed
  float *weights, *zs;   // [query][key]: scores, then w; g, then z
  float *dots, *q, *o;   // D; one vector of rows of two matrices, transposed
};

// D of queries [begin, end), with lanes over queries.
void row_dots(const Attention& a, const AttentionInput& x, const AttentionInput& y, const Head& head, int64_t begin,
              int64_t end, const BackwardScratch& scratch) {
  for (int64_t i = begin; i < end; i += lanes_of_vector) {
    const int64_t lanes = least(lanes_of_vector, end - i);
    pack_lanes(scratch.q, lanes_of_vector, {head.of(x) + i * x.token_stride, x.token_stride, 1}, lanes, a.dim);
    pack_lanes(scratch.o, lanes_of_vector, {head.of(y) + i * y.token_stride, y.token_stride, 1}, lanes, a.dim);
    Floats total = broadcast(0);
    for (int64_t block = 0; block < a.dim; block += kBlock) {
      Floats sum = broadcast(0);
      for (int64_t c = block; c < least(a.dim, block + kBlock); ++c) {
        sum = fused(load(scratch.q + c * lanes_of_vector), load(scratch.o + c * lanes_of_vector), sum);
      }
      total = block == 0 ? sum : total + sum;
    }
    store(scratch.dots + (i - begin), total);
  }
}

// Turns s and g of a row into w and z.
inline void differentiate_row(const Attention& a, const Head& head, int64_t query, const Rows& rows,
                              const float* statistics, float dot, float* s, float* g) {
  const bool drops = a.dropout.probability > 0;
  const Floats scale = broadcast(keep_scale(a));
  if (drops) {
    for_drawn(a.dropout, dropout_row(a, head, query), rows.keys,
              [&](int64_t j, Integers kept) { store(g + j, kept ? load(g + j) * scale : broadcast(0)); });
  }
  const Floats most = broadcast(statistics[0]), inverse = broadcast(statistics[1]), dots = broadcast(dot);
  const Floats kept_inverse = broadcast(statistics[1]) * scale, zero = broadcast(0);
  const int64_t allowed = allowed_keys(a, query);
  int64_t j = 0;
  for (; j + lanes_of_vector <= allowed; j += lanes_of_vector) {
    const Floats e = exponential(load(s + j) - most), p = e * inverse;
    store(s + j, drops ? e * kept_inverse : p);
    store(g + j, p * (load(g + j) - dots));
  }
  for (; j < rows.keys; j += lanes_of_vector) {
    const size_t left = static_cast<size_t>(allowed > j ? least(lanes_of_vector, allowed - j) : 0);
    const Floats e = exponential(load(s + j) - most), p = e * inverse;
    store(s + j, blend(left, drops ? e * kept_inverse : p, zero));
    store(g + j, blend(left, p * (load(g + j) - dots), zero));
  }
  if (drops) {
    for_drawn(a.dropout, dropout_row(a, head, query), rows.keys,
              [&](int64_t k, Integers kept) { store(s + k, kept ? load(s + k) : broadcast(0)); });
  }
}

// to[key][channel] (+)= alpha * weights^T [key][query] . x [query][channel], over queries [begin, end).
inline void weigh_queries(const Attention& a, const float* weights, int64_t first_key, int64_t keys, int64_t queries,
                          const float* x, int64_t token_stride, bool accumulate, float alpha, float* to,
                          int64_t to_stride) {
  Product p;
  p.m = keys;
  p.n = a.dim;
  p.k = queries;
  p.a = {weights + first_key, 1, score_stride(a)};
  p.b = {x, token_stride, 1};
  p.c = to + first_key * to_stride;
  p.c_row_stride = to_stride;
  p.accumulate = accumulate;
  p.alpha = alpha;
  multiply(p);
}

// Adds the block of queries [begin, end) to every key's sum over queries.
void weigh_query_block(const Attention& a, const float* weights, int64_t begin, int64_t end, const float* x,
                       int64_t token_stride, float scale, float* to, int64_t to_stride) {
  const float alpha = end == a.queries ? scale : 1;
  const int64_t stride = score_stride(a);
  const int64_t whole = a.causal ? least(begin, a.keys) : a.keys;
  weigh_queries(a, weights, 0, whole, end - begin, x + begin * token_stride, token_stride, begin > 0, alpha, to,
                to_stride);
  if (!a.causal) return;
  for (int64_t key = begin; key < least(end, a.keys); key += causal_rows) {
    weigh_queries(a, weights + (key - begin) * stride, key, least(causal_rows, a.keys - key), end - key,
                  x + key * token_stride, token_stride, false, alpha, to, to_stride);
  }
}

void zero_tokens(const Attention& a, int64_t begin, int64_t end, float* to, int64_t to_stride) {
  for (int64_t token = begin; token < end; ++token) {
    __builtin_memset(to + token * to_stride, 0, static_cast<size_t>(a.dim) * sizeof(float));
  }
}

void backward_block(const Attention& a, const AttentionBackward& b, const Head& head, int64_t begin, int64_t end,
                    const BackwardScratch& scratch) {
  const int64_t stride = score_stride(a);
  const float* const mask = a.mask.data == nullptr ? nullptr : head.of(a.mask);
  const float* const statistics = b.statistics + 2 * (head.batch * a.heads + head.head) * a.queries;
  row_dots(a, b.output_gradient, b.output, head, begin, end, scratch);
  for_rows(a, begin, end, [&](const Rows& rows) {
    float* const s = scratch.weights + (rows.begin - begin) * stride;
    float* const g = scratch.zs + (rows.begin - begin) * stride;
    score(a, rows, head.of(a.query), a.query.token_stride, scratch.keys, a.scale, mask, s);
    score(a, rows, head.of(b.output_gradient), b.output_gradient.token_stride, scratch.values, 1, nullptr, g);
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const int64_t row = (i - rows.begin) * stride;
      differentiate_row(a, head, i, rows, statistics + 2 * i, scratch.dots[i - begin], s + row, g + row);
    }
    if (b.query_gradient.data != nullptr) {
      weigh_tokens(a, rows, g, head.of(a.key), a.key.token_stride, a.scale, head.of(b.query_gradient),
                   b.query_gradient.token_stride);
    }
  });
  if (b.key_gradient.data != nullptr) {
    weigh_query_block(a, scratch.zs, begin, end, head.of(a.query), a.query.token_stride, a.scale,
                      head.of(b.key_gradient), b.key_gradient.token_stride);
  }
  if (b.value_gradient.data != nullptr) {
    weigh_query_block(a, scratch.weights, begin, end, head.of(b.output_gradient), b.output_gradient.token_stride, 1,
                      head.of(b.value_gradient), b.value_gradient.token_stride);
  }
}

BackwardScratch backward_scratch(const Attention& a) {
  const int64_t stride = score_stride(a), rows = least(kBlock, a.queries);
  const int64_t transposed = a.dim * stride + lanes_of_vector;
  BackwardScratch out;
  out.keys = workspace(packed_slot, static_cast<size_t>(2 * transposed));
  out.values = out.keys + transposed;
  out.weights = workspace(scores_slot, static_cast<size_t>(rows * stride));
  out.zs = workspace(gradients_slot, static_cast<size_t>(rows * stride));
  out.dots = workspace(rows_slot, static_cast<size_t>(kBlock + 2 * a.dim * lanes_of_vector));
  out.q = out.dots + kBlock;
  out.o = out.q + a.dim * lanes_of_vector;
  return out;
}

void backward_head(const Attention& a, const AttentionBackward& b, const Head& head, const BackwardScratch& scratch) {
  transpose_tokens(a, head.of(a.key), a.key.token_stride, scratch.keys);
  transpose_tokens(a, head.of(a.value), a.value.token_stride, scratch.values);
  for (int64_t begin = 0; begin < a.queries; begin += kBlock) {
    backward_block(a, b, head, begin, least(begin + kBlock, a.queries), scratch);
  }
  // Clears keys that are not terms of any query.
  const int64_t reached = a.queries == 0 ? 0 : a.causal ? least(a.keys, rounded_up(a.queries, causal_rows)) : a.keys;
  const AttentionOutput* const gradients[] = {&b.key_gradient, &b.value_gradient};
  for (const AttentionOutput* gradient : gradients) {
    if (gradient->data != nullptr) zero_tokens(a, reached, a.keys, head.of(*gradient), gradient->token_stride);
  }
}

void backward(const Attention& a, const AttentionBackward& b, const Execution& execution) {
  const int64_t heads = a.batch * a.heads, tasks = tasks_for(a, execution, heads);
  if (heads == 0) return;
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    const BackwardScratch scratch = backward_scratch(a);
    for (int64_t head = share(heads, task, tasks); head < share(heads, task + 1, tasks); ++head) {
      backward_head(a, b, head_of(a, head), scratch);
    }
  });
}

}  // namespace

extern const AttentionLoops attention_loops = {.forward = forward, .backward = backward};

}  // namespace estrain::kernels::ESTRAIN_ISA
