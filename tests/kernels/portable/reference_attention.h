#pragma once
// attention.h's definition, element by element.

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/portable/attention.h"

#undef ESTRAIN_ISA
#undef ESTRAIN_VECTORS
#define ESTRAIN_ISA scalar
#define ESTRAIN_VECTORS "tests/kernels/portable/vector_scalar.h"
#include "kernels/portable/arithmetic/exp.h"

namespace estrain::kernels::test {

// The first word of random.h used for element `i` of a call.
inline uint32_t drawn_word(const portable::Stream& stream, int64_t i) {
  const uint32_t block = static_cast<uint32_t>(16 * (i / 64) + i % 16);
  uint32_t key[2] = {static_cast<uint32_t>(stream.key),
                     static_cast<uint32_t>(stream.key >> 32) ^ static_cast<uint32_t>(stream.step >> 32)};
  uint32_t c[4] = {block, stream.call, static_cast<uint32_t>(stream.step), stream.rank};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    for (int w = 0; w < 4; ++w) c[w] = next[w];
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c[i / 16 % 4];
}

// A dot product over the indices [begin, end), in blocks at multiples of 256.
template <typename A, typename B>
float blocked_dot(int64_t begin, int64_t end, A a, B b) {
  float total = 0;
  bool first = true;
  for (int64_t block = begin / 256 * 256; block < end; block += 256) {
    float sum = 0;
    for (int64_t i = std::max(block, begin); i < std::min(block + 256, end); ++i) sum = std::fma(a(i), b(i), sum);
    total = first ? sum : total + sum;
    first = false;
  }
  return total;
}

// The matrices of a head, row by row.
class ReferenceAttention {
 public:
  ReferenceAttention(const portable::Attention& a, int64_t batch, int64_t head) : a_(a), batch_(batch), head_(head) {}

  int64_t terms(int64_t i) const { return a_.causal ? std::min(a_.keys, 16 * (i / 16 + 1)) : a_.keys; }
  bool allowed(int64_t i, int64_t j) const { return !a_.causal || j <= i; }
  float at(const portable::AttentionInput& x, int64_t token, int64_t c) const {
    return x.data[batch_ * x.batch_stride + head_ * x.head_stride + token * x.token_stride + c];
  }
  bool kept(int64_t i, int64_t j) const {
    if (a_.dropout.probability == 0) return true;
    const int64_t row = (batch_ * a_.heads + head_) * a_.queries + i;
    const uint32_t word = drawn_word(a_.dropout.stream, row * ((a_.keys + 63) / 64 * 64) + j);
    return static_cast<float>(word >> 8) * 0x1p-24f < static_cast<float>(1 - a_.dropout.probability);
  }
  float keep_scale() const {
    if (a_.dropout.probability == 0) return 1;
    return a_.dropout.probability == 1 ? 0 : static_cast<float>(1 / (1 - a_.dropout.probability));
  }

  float score(int64_t i, int64_t j) const {
    const float dot = blocked_dot(
        0, a_.dim, [&](int64_t c) { return at(a_.query, i, c); }, [&](int64_t c) { return at(a_.key, j, c); });
    const float scaled = a_.scale * dot;
    const portable::AttentionMask& m = a_.mask;
    if (m.data == nullptr) return scaled;
    return scaled + m.data[batch_ * m.batch_stride + head_ * m.head_stride + i * m.query_stride + j * m.key_stride];
  }

  struct Row {
    float max, inverse;
    std::vector<float> e;
  };
  Row row(int64_t i) const {
    Row out = {-INFINITY, 0, std::vector<float>(static_cast<size_t>(terms(i)))};
    for (int64_t j = 0; j < terms(i); ++j) {
      out.e[static_cast<size_t>(j)] = score(i, j);
      if (allowed(i, j) && out.e[static_cast<size_t>(j)] > out.max) out.max = out.e[static_cast<size_t>(j)];
    }
    out.max = out.max == -INFINITY ? 0 : out.max + 0.0f;
    float lanes[32] = {};
    for (int64_t j = 0; j < terms(i); ++j) {
      float& e = out.e[static_cast<size_t>(j)];
      e = allowed(i, j) ? scalar::exponential(e - out.max) : 0;
      lanes[j % 32] += e;
    }
    for (int half = 16; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    out.inverse = lanes[0] == 0 ? 0 : 1 / lanes[0];
    return out;
  }

  // output[i][c] and statistics[i][2], rows contiguous.
  void forward(float* output, float* statistics) const {
    for (int64_t i = 0; i < a_.queries; ++i) {
      const Row r = row(i);
      statistics[2 * i] = r.max;
      statistics[2 * i + 1] = r.inverse;
      for (int64_t c = 0; c < a_.dim; ++c) {
        const float sum = blocked_dot(
            0, terms(i), [&](int64_t j) { return kept(i, j) ? r.e[static_cast<size_t>(j)] : 0.0f; },
            [&](int64_t j) { return at(a_.value, j, c); });
        output[i * a_.dim + c] = sum * (r.inverse * keep_scale());
      }
    }
  }

  // Gradients [token][c], contiguous.
  void backward(const portable::AttentionBackward& b, float* dq, float* dk, float* dv) const {
    const size_t keys = static_cast<size_t>(a_.keys);
    std::vector<float> w(static_cast<size_t>(a_.queries) * keys), z = w;
    for (int64_t i = 0; i < a_.queries; ++i) {
      const float dot = blocked_dot(
          0, a_.dim, [&](int64_t c) { return at(b.output_gradient, i, c); },
          [&](int64_t c) { return at(b.output, i, c); });
      const Row r = row(i);
      for (int64_t j = 0; j < terms(i); ++j) {
        const size_t ij = static_cast<size_t>(i) * keys + static_cast<size_t>(j);
        const float e = r.e[static_cast<size_t>(j)];
        float g = blocked_dot(
            0, a_.dim, [&](int64_t c) { return at(b.output_gradient, i, c); },
            [&](int64_t c) { return at(a_.value, j, c); });
        if (a_.dropout.probability > 0) g = kept(i, j) ? g * keep_scale() : 0;
        w[ij] = kept(i, j) && allowed(i, j) ? e * (r.inverse * keep_scale()) : 0;
        z[ij] = allowed(i, j) ? (e * r.inverse) * (g - dot) : 0;
      }
      for (int64_t c = 0; c < a_.dim; ++c) {
        dq[i * a_.dim + c] =
            a_.scale * blocked_dot(
                           0, terms(i), [&](int64_t j) { return z[static_cast<size_t>(i * a_.keys + j)]; },
                           [&](int64_t j) { return at(a_.key, j, c); });
      }
    }
    for (int64_t j = 0; j < a_.keys; ++j) {
      const int64_t begin = a_.causal ? j / 16 * 16 : 0;
      for (int64_t c = 0; c < a_.dim; ++c) {
        const float sum = blocked_dot(
            begin, a_.queries, [&](int64_t i) { return z[static_cast<size_t>(i * a_.keys + j)]; },
            [&](int64_t i) { return at(a_.query, i, c); });
        dk[j * a_.dim + c] = begin < a_.queries ? a_.scale * sum : 0;
        dv[j * a_.dim + c] = blocked_dot(
            begin, a_.queries, [&](int64_t i) { return w[static_cast<size_t>(i * a_.keys + j)]; },
            [&](int64_t i) { return at(b.output_gradient, i, c); });
      }
    }
  }

 private:
  const portable::Attention& a_;
  int64_t batch_, head_;
};

}  // namespace estrain::kernels::test
