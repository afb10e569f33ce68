// Copies images into grids: zeros around an image, and positions a stride apart side by side.

#include "kernels/portable/loops/convolution_pack.h"
#include "kernels/portable/loops/convolution_parts.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {

static inline void copy_row(const float* from, int64_t n, float* to) {
  const int64_t vector = static_cast<int64_t>(width);
  if (n < vector) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + vector < n; i += vector) store(to + i, load(from + i));
  store(to + n - vector, load(from + n - vector));  // may write some elements twice
}

static inline void clear_row(float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = 0;
}

static inline void copy_grid_row(const float* from, const GridAxis& axis, const GridPhase& phase, float* to) {
  clear_row(to, phase.begin);
  const float* first = from + (axis.low + phase.begin) * axis.stride + phase.phase;
  const int64_t n = phase.end - phase.begin;
  to += phase.begin;
  if (axis.stride == 1) {
    copy_row(first, n, to);
  } else if (axis.stride == 2) {
    for (int64_t i = 0; i < n; ++i) to[i] = first[2 * i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = first[axis.stride * i];
  }
  clear_row(to + n, axis.count - phase.end);
}

static void copy_plane(const GridCopy& copy, const float* from, float* to) {
  const GridAxis &rows = copy.rows, &columns = copy.columns;
  for (int64_t a = 0; a < rows.num_phases; ++a) {
    const GridPhase& row_phase = rows.phases[a];
    for (int64_t b = 0; b < columns.num_phases; ++b) {
      clear_row(to, row_phase.begin * columns.count);
      for (int64_t i = row_phase.begin; i < row_phase.end; ++i) {
        const int64_t row = (rows.low + i) * rows.stride + row_phase.phase;
        copy_grid_row(from + row * columns.size, columns, columns.phases[b], to + i * columns.count);
      }
      clear_row(to + row_phase.end * columns.count, (rows.count - row_phase.end) * columns.count);
      to += rows.count * columns.count;
    }
  }
}

void copy_grid(const GridCopy& copy, const float* from, float* to, const Execution& execution) {
  const int64_t planes = copy.images * copy.channels;
  const int64_t source_plane = copy.rows.size * copy.columns.size;
  const int64_t plane = copy.rows.num_phases * copy.columns.num_phases * copy.rows.count * copy.columns.count;
  const int64_t threads = execution.run == nullptr ? 1 : execution.threads;
  const int64_t tasks = least(planes, threads == 1 ? 1 : 4 * threads);
  for_tasks(execution, static_cast<int>(tasks), [&](int task) {
    for (int64_t i = planes * task / tasks; i < planes * (task + 1) / tasks; ++i) {
      const int64_t image = i / copy.channels, channel = i % copy.channels;
      copy_plane(copy, from + image * copy.image_stride + channel * source_plane, to + i * plane);
    }
  });
}

}  // namespace estrain::kernels::ESTRAIN_ISA
