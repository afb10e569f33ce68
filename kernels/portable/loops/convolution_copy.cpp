// Copying images into grids: zeros round them, and positions a stride apart side by side.

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

// The elements [begin, end) of a grid's axis that lie in the image.
struct Inside {
  int64_t begin, end;
};
static Inside inside(const GridAxis& axis, int64_t phase) {
  // begin: the least i >= 0 with (low + i) * stride + phase >= 0; end: likewise with >= size.
  const auto first_at_least = [&](int64_t position) {
    const int64_t distance = position - phase;
    const int64_t quotient = distance <= 0 ? -(-distance / axis.stride) : (distance + axis.stride - 1) / axis.stride;
    return most(0, least(axis.count, quotient - axis.low));
  };
  return {first_at_least(0), first_at_least(axis.size)};
}

static inline void copy_grid_row(const float* from, const GridAxis& axis, int64_t phase, Inside columns, float* to) {
  clear_row(to, columns.begin);
  const float* first = from + (axis.low + columns.begin) * axis.stride + phase;
  const int64_t n = columns.end - columns.begin;
  to += columns.begin;
  if (axis.stride == 1) {
    copy_row(first, n, to);
  } else if (axis.stride == 2) {
    for (int64_t i = 0; i < n; ++i) to[i] = first[2 * i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = first[axis.stride * i];
  }
  clear_row(to + n, axis.count - columns.end);
}

static void copy_plane(const GridCopy& copy, const float* from, float* to) {
  const GridAxis &rows = copy.rows, &columns = copy.columns;
  for (int64_t a = 0; a < rows.num_phases; ++a) {
    const Inside inside_rows = inside(rows, rows.phases[a]);
    for (int64_t b = 0; b < columns.num_phases; ++b) {
      const Inside inside_columns = inside(columns, columns.phases[b]);
      clear_row(to, inside_rows.begin * columns.count);
      for (int64_t i = inside_rows.begin; i < inside_rows.end; ++i) {
        const int64_t row = (rows.low + i) * rows.stride + rows.phases[a];
        copy_grid_row(from + row * columns.size, columns, columns.phases[b], inside_columns, to + i * columns.count);
      }
      clear_row(to + inside_rows.end * columns.count, (rows.count - inside_rows.end) * columns.count);
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
