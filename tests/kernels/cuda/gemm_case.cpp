#include "kernels/portable/gemm.h"
#include "tests/kernels/cuda/families.h"
#include "tests/kernels/cuda/twin.h"

namespace estrain::kernels::test {

using namespace portable;

namespace {

// Contiguous rows or columns, or neither, or broadcast along rows.
GemmOperand drawn_operand(Draw& draw, int64_t rows, int64_t columns, bool broadcast) {
  GemmOperand x;
  const int64_t gap = draw.one_of<int64_t>({0, 0, 1, 4});
  const int order = static_cast<int>(draw.integer(0, broadcast ? 3 : 2));
  if (order == 0) x.row_stride = columns + gap, x.column_stride = 1;
  if (order == 1) x.row_stride = 1, x.column_stride = rows + gap;
  if (order == 2) x.row_stride = 2 * columns + gap, x.column_stride = 2;
  if (order == 3) x.row_stride = 0, x.column_stride = 1;
  x.batch_stride = rows * x.row_stride + columns * x.column_stride;
  return x;
}

}  // namespace

std::string gemm_case(uint32_t seed) {
  Draw draw(seed);
  Gemm g;
  const int size = static_cast<int>(seed % 8);
  const int64_t most = size == 0 ? 300 : size < 4 ? 140 : 40;
  g.batch = size < 4 ? 1 : draw.integer(0, 3);
  g.m = draw.integer(0, most);
  g.n = draw.integer(0, most);
  g.k = draw.one_of<int64_t>({0, 1, 16, 255, 256, 257, draw.integer(0, 90), draw.integer(200, 1100)});
  if (seed % 8 == 0) {  // large enough for large tiles and split sums
    g.batch = 1;
    g.m = draw.one_of<int64_t>({60, 64, 128, 132, 200});
    g.n = draw.one_of<int64_t>({60, 64, 128, 132, 200});
    g.k = draw.one_of<int64_t>({512, 768, draw.integer(500, 1100)});
  }
  g.alpha = draw.one_of<float>({1, -0.5f});
  g.beta = draw.one_of<float>({1, 0, 0.75f});
  g.a = drawn_operand(draw, g.m, g.k, true);
  g.b = drawn_operand(draw, g.k, g.n, true);
  g.d = drawn_operand(draw, g.m, g.n, true);
  g.c_row_stride = g.n + draw.one_of<int64_t>({0, 1, 4});
  g.c_batch_stride = g.m * g.c_row_stride;
  const bool addend = draw.chance(60), in_place = draw.chance(30);
  Twin<float> a(draw.floats(g.batch * g.a.batch_stride + 1)), b(draw.floats(g.batch * g.b.batch_stride + 1));
  Twin<float> d(draw.floats(g.batch * g.d.batch_stride + 1)), c(draw.normal(g.batch * g.c_batch_stride + 1));
  if (in_place) g.d = {nullptr, g.c_batch_stride, g.c_row_stride, 1};
  const auto call = [&](auto at, const Execution& e) {
    g.a.data = at(a);
    g.b.data = at(b);
    g.d.data = !addend ? nullptr : in_place ? at(c) : at(d);
    g.c = at(c);
    gemm(g, e);
  };
  call([](Twin<float>& twin) { return twin.here(); }, on_cpu());
  const int layout = draw.chance(40) ? 0 : static_cast<int>(draw.integer(1, kLayouts - 1));
  call([](Twin<float>& twin) { return twin.there(); }, on_device(layout));
  return report(c.difference("c"),
                shape_of("batch, m, n, k, addend, in place", g.batch, g.m, g.n, g.k, addend, in_place));
}

}  // namespace estrain::kernels::test
