#include "kernels/portable/loops/gemm.h"

#include "kernels/portable/loops/product.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

// Below this many multiply-adds a second thread costs more than it saves.
constexpr double work_for_threads = 1 << 20;

// How threads divide the outputs: parts of the batch, or of the rows or columns of every matrix.
struct Split {
  int64_t batches = 1, rows = 1, columns = 1;
};

Split split_of(const portable::Gemm& g, const Execution& execution) {
  const double work =
      static_cast<double>(g.batch) * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  const int64_t threads = execution.run == nullptr ? 1 : execution.threads;
  if (threads <= 1 || work < work_for_threads) return {};
  if (g.batch % threads == 0 || g.batch >= 4 * threads) return {threads, 1, 1};
  // Each part packs the shared operand again, so the longer side is cut.
  return g.m >= g.n ? Split{1, threads < g.m ? threads : g.m, 1} : Split{1, 1, threads < g.n ? threads : g.n};
}

inline const float* at(const portable::GemmOperand& x, int64_t batch, int64_t row, int64_t column) {
  if (x.data == nullptr) return nullptr;
  return x.data + batch * x.batch_stride + row * x.row_stride + column * x.column_stride;
}

// Computes outputs [row, row_end) x [column, column_end) of a matrix.
void run_part(const portable::Gemm& g, int64_t batch, int64_t row, int64_t row_end, int64_t column,
              int64_t column_end) {
  Product p;
  p.m = row_end - row;
  p.n = column_end - column;
  p.k = g.k;
  p.a = {at(g.a, batch, row, 0), g.a.row_stride, g.a.column_stride};
  p.b = {at(g.b, batch, 0, column), g.b.row_stride, g.b.column_stride};
  p.c = g.c + batch * g.c_batch_stride + row * g.c_row_stride + column;
  p.c_row_stride = g.c_row_stride;
  p.alpha = g.alpha;
  p.beta = g.beta;
  p.d = {at(g.d, batch, row, column), g.d.row_stride, g.d.column_stride};
  multiply(p);
}

void run(const portable::Gemm& g, const Execution& execution) {
  const Split split = split_of(g, execution);
  const int64_t tasks = split.batches * split.rows * split.columns;
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    const int64_t batch_part = split.batches > 1 ? task : 0, row_part = split.rows > 1 ? task : 0;
    const int64_t column_part = split.columns > 1 ? task : 0;
    for (int64_t b = g.batch * batch_part / split.batches; b < g.batch * (batch_part + 1) / split.batches; ++b) {
      run_part(g, b, g.m * row_part / split.rows, g.m * (row_part + 1) / split.rows, g.n * column_part / split.columns,
               g.n * (column_part + 1) / split.columns);
    }
  });
}

}  // namespace

extern const GemmLoops gemm_loops = {.run = run};

}  // namespace estrain::kernels::ESTRAIN_ISA
