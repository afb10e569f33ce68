#include "kernels/portable/random.h"
#include "tests/kernels/cuda/families.h"
#include "tests/kernels/cuda/twin.h"

namespace estrain::kernels::test {

using namespace portable;

namespace {

Stream stream_of(Draw& draw) {
  return {.key = static_cast<uint64_t>(draw.integer(0, INT64_MAX - 1)),
          .rank = static_cast<uint32_t>(draw.integer(0, 100)),
          .call = static_cast<uint32_t>(draw.integer(0, 1000)),
          .step = static_cast<uint64_t>(draw.integer(0, INT64_MAX - 1))};
}

}  // namespace

std::string random_case(uint32_t seed) {
  Draw draw(seed);
  const int64_t n = draw.one_of<int64_t>({0, 1, 63, 64, 65, draw.integer(1, 5000)});
  const Stream stream = stream_of(draw);
  const double p = draw.one_of<double>({0.0, 0.1, 0.5, 1.0});
  const float mean = draw.normal(1)[0], deviation = draw.positive(1)[0] + 0.1f;
  const int64_t shift = draw.chance(25) ? draw.integer(1, 3) : 0;  // aligned for reads of 16 bytes
  Twin<float> x(draw.floats(n + shift)), out(Draw::blank(n + shift));
  Twin<int64_t> integers(std::vector<int64_t>(static_cast<size_t>(n), -1));
  Twin<uint8_t> mask(std::vector<uint8_t>(static_cast<size_t>(n), 3));
  const int which = static_cast<int>(seed % 9);
  const auto call = [&](float* o, const float* in, int64_t* whole, uint8_t* bytes, const Execution& e) {
    bool* bools = reinterpret_cast<bool*>(bytes);
    if (which == 0) return uniform(o, n, mean, mean + deviation, stream, e);
    if (which == 1) return normal(o, n, mean, deviation, stream, e);
    if (which == 2) return bernoulli(o, n, static_cast<float>(p), stream, e);
    if (which == 3) return bernoulli(o, in, n, stream, e);
    if (which == 4) return exponential(o, n, deviation, stream, e);
    if (which == 5) return dropout(o, nullptr, in, n, p, stream, e);
    if (which == 6) return random_integers(whole, n, -5, static_cast<int64_t>(stream.key >> 3), stream, e);
    dropout(o, bools, in, n, p, stream, e);
    if (which == 8) dropout_backward(o, in, bools, n, dropout_scale(p), e);
  };
  call(out.here() + shift, x.here() + shift, integers.here(), mask.here(), on_cpu());
  call(out.there() + shift, x.there() + shift, integers.there(), mask.there(), on_device());
  return report(out.difference("out") + integers.difference("integers") + mask.difference("mask"),
                shape_of("function, n", which, n));
}

std::string permutation_case(uint32_t seed) {
  Draw draw(seed);
  const int64_t n = draw.one_of<int64_t>({0, 1, draw.integer(2, 300), draw.integer(1000, 9000)});
  const Stream stream = stream_of(draw);
  Twin<int64_t> out(std::vector<int64_t>(static_cast<size_t>(n), -1));
  permutation(out.here(), n, stream, on_cpu());
  permutation(out.there(), n, stream, on_device());
  return report(out.difference("out"), shape_of("n", n));
}

}  // namespace estrain::kernels::test
