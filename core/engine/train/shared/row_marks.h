#pragma once
// Marks of the rows of tables that a step's gradients may change. In all other rows the summed gradient is +0, and some
// optimizers leave such rows alone (optim::Optimizer::rests_on_zeros()). A step writes the copy of the state that has
// the values of two steps before, so the update writes the rows marked in this step or in the step before.
//
// Each worker of a host marks the rows of its gradients, in memory that all of the host's workers read after the
// workers' meeting. Of each parameter that may be a table, the first word tells whether all rows are marked; then comes
// a bit for each row.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/shared/row_sums.h"
#include "core/engine/train/state/model_places.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

class RowMarks {
 public:
  RowMarks(const ModelPlaces& places, comm::JobMemory& memory, const StageOrder& order);

  // All rows count as marked in the step before a stage's first step.
  void begin_step(Step step);
  // Marks rows, or all rows. Do nothing for a parameter that is no table.
  void mark(size_t parameter, std::span<const RowNumber> rows);
  void mark_all(size_t parameter);

  // Call the following functions when no worker marks single rows of the parameter any more.

  // Returns whether neither step has marked all rows of a table.
  bool are_few(size_t parameter) const;
  // Calls take(begin, end) for each run of marked rows among [begin, end).
  template <typename Take>
  void for_each_run(size_t parameter, size_t begin, size_t end, Take&& take) const {
    for_each_run_of([&](size_t word) { return marks_of(now_, parameter, word); }, begin, end, take);
  }
  // The same for the rows that only the step before has marked.
  template <typename Take>
  void for_each_run_before(size_t parameter, size_t begin, size_t end, Take&& take) const {
    const auto marks = [&](size_t word) {
      return marks_of(before_, parameter, word) & ~marks_of(now_, parameter, word);
    };
    for_each_run_of(marks, begin, end, take);
  }

 private:
  using OfWorkers = std::vector<uint64_t*>;  // [worker]

  uint64_t* own(const OfWorkers& marks, size_t parameter) const {
    return marks[worker_] + places_.table(parameter).marks;
  }
  bool has_all(const OfWorkers& marks, size_t parameter) const;
  // The marks of rows [64 word, 64 word + 64) by all workers.
  uint64_t marks_of(const OfWorkers& marks, size_t parameter, size_t word) const {
    uint64_t all = 0;
    for (const uint64_t* const of_worker : marks) all |= of_worker[places_.table(parameter).marks + 1 + word];
    return all;
  }
  template <typename MarksOfWord, typename Take>
  static void for_each_run_of(MarksOfWord&& marks_of_word, size_t begin, size_t end, Take&& take);

  const ModelPlaces& places_;
  comm::JobMemory& memory_;
  const size_t worker_;
  OfWorkers now_, before_;
  bool is_first_ = true;
};

template <typename MarksOfWord, typename Take>
void RowMarks::for_each_run_of(MarksOfWord&& marks_of_word, size_t begin, size_t end, Take&& take) {
  size_t run_begin = begin, run_end = begin;
  for (size_t word = begin / 64; word * 64 < end; ++word) {
    const size_t first_row = word * 64;
    uint64_t marks = marks_of_word(word);
    if (first_row < begin) marks &= ~uint64_t{0} << (begin - first_row);
    if (end - first_row < 64) marks &= (uint64_t{1} << (end - first_row)) - 1;
    while (marks != 0) {
      const int first = std::countr_zero(marks), length = std::countr_one(marks >> first);
      marks &= length == 64 ? 0 : ~(((uint64_t{1} << length) - 1) << first);
      const size_t from = first_row + static_cast<size_t>(first), to = from + static_cast<size_t>(length);
      if (from != run_end) {
        if (run_begin < run_end) take(run_begin, run_end);
        run_begin = from;
      }
      run_end = to;
    }
  }
  if (run_begin < run_end) take(run_begin, run_end);
}

}  // namespace estrain::train
