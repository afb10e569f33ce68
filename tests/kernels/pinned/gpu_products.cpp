#include <memory>

#include "kernels/pinned/fields.h"
#include "kernels/pinned/product.h"
#include "tests/kernels/cuda/twin.h"
#include "tests/kernels/pinned/pinned_checks.h"
#include "tests/kernels/pinned/pinned_trial.h"

namespace estrain::kernels::test {
namespace {

using pinned::Element;
using pinned::Math;
using pinned::ProductProblem;

ProductProblem::MatrixOperand drawn_operand(Draw& draw, int64_t rows, int64_t columns, bool may_be_transposed) {
  ProductProblem::MatrixOperand operand;
  operand.transposed = may_be_transposed && draw.chance(50);
  if (operand.transposed) std::swap(rows, columns);
  operand.leading = columns + (draw.chance(30) ? draw.integer(0, 1) * 8 + draw.integer(0, 1) : 0);
  operand.stride = rows * operand.leading;
  return operand;
}

ProductProblem drawn_product(Draw& draw) {
  ProductProblem p;
  p.element = draw.chance(40) ? Element::bf16 : Element::f32;
  p.math = p.element == Element::f32 && draw.chance(30) ? Math::tf32 : Math::exact;
  p.batch = draw.chance(60) ? 1 : draw.integer(2, 5);
  p.m = draw.one_of<int64_t>({1, 8, 64, draw.integer(1, 100)});
  p.n = draw.one_of<int64_t>({1, 10, 64, draw.integer(1, 100)});
  p.k = draw.one_of<int64_t>({1, 64, draw.integer(1, 90), draw.integer(100, 700)});
  p.a = drawn_operand(draw, p.m, p.k, true);
  p.b = drawn_operand(draw, p.k, p.n, true);
  p.d = {p.n, p.m * p.n, false};
  p.addend = draw.one_of({ProductProblem::Addend::none, ProductProblem::Addend::matrix, ProductProblem::Addend::bias});
  if (p.addend == ProductProblem::Addend::bias) p.batch = 1;
  if (p.addend == ProductProblem::Addend::matrix) p.c = drawn_operand(draw, p.m, p.n, false);
  for (const int64_t distance :
       {p.a.leading, p.b.leading, p.d.leading, p.c.leading, p.a.stride, p.b.stride, p.d.stride, p.c.stride}) {
    while (distance * static_cast<int64_t>(pinned::bytes_of(p.element)) % p.alignment != 0) p.alignment /= 2;
  }
  return p;
}

int64_t place(const ProductProblem::MatrixOperand& operand, int64_t matrix, int64_t row, int64_t column) {
  if (operand.transposed) std::swap(row, column);
  return matrix * operand.stride + row * operand.leading + column;
}

}  // namespace

void check_product(uint32_t seed, PinnedOutcome& outcome) {
  static const pinned::Products library;
  Draw draw(seed);
  const ProductProblem p = drawn_product(draw);
  const float alpha = draw.one_of<float>({1, -0.5f}), beta = p.addend == ProductProblem::Addend::matrix ? 0.75f : 0;
  const Values a(draw.normal(p.batch * p.a.stride), p.element), b(draw.normal(p.batch * p.b.stride), p.element);
  const Values c(draw.normal(p.addend == ProductProblem::Addend::matrix ? p.batch * p.c.stride : p.n), p.element);
  Expected expected = {{}, p.element, p.math};
  for (int64_t matrix = 0; matrix < p.batch; ++matrix) {
    for (int64_t row = 0; row < p.m; ++row) {
      for (int64_t column = 0; column < p.n; ++column) {
        Sum sum;
        for (int64_t i = 0; i < p.k; ++i)
          sum.add(static_cast<double>(alpha) * a[place(p.a, matrix, row, i)] * b[place(p.b, matrix, i, column)]);
        if (p.addend == ProductProblem::Addend::bias) sum.add(c[column]);
        if (p.addend == ProductProblem::Addend::matrix)
          sum.add(static_cast<double>(beta) * c[place(p.c, matrix, row, column)]);
        expected.sums.push_back(sum);
      }
    }
  }
  Tally tally;
  const void* addend = p.addend == ProductProblem::Addend::none ? nullptr : c.there();
  const std::string fault = try_candidates<pinned::ProductPlan>(
      library, p, expected, &tally, [&](pinned::ProductPlan& plan, void* out, void* workspace) {
        plan.run({a.there(), b.there(), addend, out, alpha, beta}, workspace, nullptr);
      });
  record(outcome, seed, pinned::fields_of(p), tally, fault);
}

}  // namespace estrain::kernels::test
