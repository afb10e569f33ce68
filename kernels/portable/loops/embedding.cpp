#include "kernels/portable/loops/embedding.h"

#include "kernels/loops/walks.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t max(int64_t a, int64_t b) { return a < b ? b : a; }

constexpr int64_t kColumns = 16;           // columns of a task are a multiple of these: a cache line
constexpr int64_t kWorthATask = 16384;     // gradients to add
constexpr int64_t kWorthClearing = 65536;  // floats to set to zero

void clear(const EmbeddingArguments& a, const Execution& execution) {
  const int64_t floats = a.vocabulary * a.d;
  const int64_t tasks = max(1, min(execution.threads, floats / kWorthClearing));
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    const int64_t begin = floats * task / tasks, end = floats * (task + 1) / tasks;
    // Writes through the caches: the system has just cleared fresh memory in the caches.
    for_vectors(static_cast<size_t>(begin), static_cast<size_t>(end),
                [&](size_t i, auto part) { part.write(a.dweight + i, broadcast(0)); });
  });
}

void add_columns(const EmbeddingArguments& a, int64_t begin, int64_t end) {
  for (int64_t i = 0; i < a.n; ++i) {
    const int64_t row = a.indices[i];
    if (row < 0 || row >= a.vocabulary || row == a.padding_index) continue;
    float* out = a.dweight + row * a.d;
    const float* dy = a.dy + i * a.d;
    const Floats scale = broadcast(a.scale == nullptr ? 1.0f : a.scale[row]);
    for_vectors(static_cast<size_t>(begin), static_cast<size_t>(end), [&](size_t j, auto part) {
      // Multiplying by 1 is exact: a single formula serves both cases.
      part.write(out + j, fused(part.read(dy + j), scale, part.read(out + j)));
    });
  }
}

void backward(const EmbeddingArguments& a, const Execution& execution) {
  clear(a, execution);
  const int64_t pieces = (a.d + kColumns - 1) / kColumns;
  const int64_t tasks = max(1, min(min(execution.threads, pieces), a.n * a.d / kWorthATask));
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    add_columns(a, pieces * task / tasks * kColumns, min(a.d, pieces * (task + 1) / tasks * kColumns));
  });
}

}  // namespace

extern const EmbeddingLoops embedding_loops = {.backward = backward};

}  // namespace estrain::kernels::ESTRAIN_ISA
