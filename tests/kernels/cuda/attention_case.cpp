#include "kernels/portable/attention.h"
#include "tests/kernels/cuda/families.h"
#include "tests/kernels/cuda/twin.h"

namespace estrain::kernels::test {

using namespace portable;

namespace {

// [batch, heads, tokens, dim], or with heads and tokens swapped in memory.
struct Strides {
  int64_t batch, head, token;
};
Strides drawn_strides(Draw& draw, const Attention& a, int64_t tokens) {
  if (draw.chance(50)) return {a.heads * tokens * a.dim, tokens * a.dim, a.dim};
  return {a.heads * tokens * a.dim, a.dim, a.heads * a.dim};
}

}  // namespace

std::string attention_case(uint32_t seed) {
  Draw draw(seed);
  Attention a;
  a.batch = draw.integer(1, 2);
  a.heads = draw.integer(1, 2);
  const bool big = seed % 12 == 0;
  a.queries = big ? draw.integer(250, 300) : draw.one_of<int64_t>({1, 15, 16, 17, draw.integer(0, 70)});
  a.keys = big || draw.chance(50) ? a.queries : draw.one_of<int64_t>({0, 1, 33, draw.integer(1, 90), 270});
  a.dim = draw.one_of<int64_t>({1, 8, 16, 33, big ? 8 : 270});
  a.causal = draw.chance(50);
  a.scale = 0.125f;
  a.dropout.probability = draw.one_of<double>({0, 0, 0.3, 1});
  a.dropout.stream = {.key = 0x123456789ABCDEFull + seed, .rank = 3, .call = 5, .step = 0x1000000007};
  const int64_t q = a.batch * a.heads * a.queries * a.dim, k = a.batch * a.heads * a.keys * a.dim;
  const Strides qs = drawn_strides(draw, a, a.queries), ks = drawn_strides(draw, a, a.keys);
  Twin<float> query(draw.floats(q)), key(draw.floats(k)), value(draw.floats(k)), dout(draw.normal(q));
  Twin<float> out(Draw::blank(q)), statistics(Draw::blank(2 * a.batch * a.heads * a.queries));
  Twin<float> dq(Draw::blank(q)), dk(Draw::blank(k)), dv(Draw::blank(k)), mask(draw.normal(a.queries * a.keys));
  const bool masked = draw.chance(30);
  const auto call = [&](auto at, const Execution& e) {
    a.query = {at(query), qs.batch, qs.head, qs.token};
    a.key = {at(key), ks.batch, ks.head, ks.token};
    a.value = {at(value), ks.batch, ks.head, ks.token};
    if (masked) a.mask = {at(mask), 0, 0, a.keys, 1};
    attention(a, {{at(out), qs.batch, qs.head, qs.token}, at(statistics)}, e);
    attention_backward(a,
                       {{at(out), qs.batch, qs.head, qs.token},
                        {at(dout), qs.batch, qs.head, qs.token},
                        at(statistics),
                        {at(dq), qs.batch, qs.head, qs.token},
                        {at(dk), ks.batch, ks.head, ks.token},
                        {at(dv), ks.batch, ks.head, ks.token}},
                       e);
  };
  call([](Twin<float>& twin) { return twin.here(); }, on_cpu());
  const int layout = draw.chance(40) ? 0 : static_cast<int>(draw.integer(1, kLayouts - 1));
  call([](Twin<float>& twin) { return twin.there(); }, on_device(layout));
  return report(out.difference("output") + statistics.difference("statistics") + dq.difference("query_gradient") +
                    dk.difference("key_gradient") + dv.difference("value_gradient"),
                shape_of("batch, heads, queries, keys, dim, causal, dropout", a.batch, a.heads, a.queries, a.keys,
                         a.dim, a.causal, a.dropout.probability));
}

}  // namespace estrain::kernels::test
