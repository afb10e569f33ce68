#include "core/engine/train/shared/row_marks.h"

#include <algorithm>
#include <atomic>

namespace estrain::train {
namespace {

std::atomic_ref<uint64_t> flag(uint64_t* word) { return std::atomic_ref(*word); }

}  // namespace

RowMarks::RowMarks(const ModelPlaces& places, comm::JobMemory& memory, const StageOrder& order)
    : places_(places),
      memory_(memory),
      worker_(static_cast<size_t>(order.worker.value)),
      now_(order.ranges.size()),
      before_(order.ranges.size()) {}

void RowMarks::begin_step(Step step) {
  for (size_t w = 0; w < now_.size(); ++w) {
    const WorkerRank worker(static_cast<int64_t>(w));
    now_[w] = memory_.row_marks(worker, step);
    before_[w] = memory_.row_marks(worker, Step(step.value - 1));
  }
  std::fill_n(now_[worker_], places_.row_mark_words(), 0);
  if (!is_first_) return;
  is_first_ = false;
  for (size_t i = 0; i < places_.num_parameters(); ++i) {
    if (places_.table(i).rows > 0) flag(own(before_, i)).store(1, std::memory_order_relaxed);
  }
}

void RowMarks::mark(size_t parameter, std::span<const RowNumber> rows) {
  if (places_.table(parameter).rows == 0) return;
  uint64_t* const marks = own(now_, parameter) + 1;
  for (const RowNumber row : rows) marks[row / 64] |= uint64_t{1} << row % 64;
}

void RowMarks::mark_all(size_t parameter) {
  if (places_.table(parameter).rows > 0) flag(own(now_, parameter)).store(1, std::memory_order_relaxed);
}

bool RowMarks::has_all(const OfWorkers& marks, size_t parameter) const {
  const size_t word = places_.table(parameter).marks;
  return std::ranges::any_of(
      marks, [word](uint64_t* of_worker) { return flag(of_worker + word).load(std::memory_order_relaxed) != 0; });
}

bool RowMarks::are_few(size_t parameter) const {
  return places_.table(parameter).rows > 0 && !has_all(now_, parameter) && !has_all(before_, parameter);
}

}  // namespace estrain::train
