#pragma once
// Holds the partial sums of a stage's workers in shared memory. Knows which slot takes the sums of which worker, and
// reads pieces of the summed gradient.

#include <cstddef>
#include <vector>

#include "core/engine/est/fold.h"
#include "core/engine/train/job/job.h"
#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/shared/row_marks.h"
#include "core/engine/train/shared/row_sums.h"
#include "core/engine/train/state/model_places.h"
#include "core/state/comm/job_memory.h"

namespace estrain::train {

class GradientStore {
 public:
  // `marks`: of this worker.
  GradientStore(const ModelPlaces& places, const GradientSum& sum, comm::JobMemory& memory, const StageOrder& order,
                RowMarks& marks);

  int64_t slots() const { return slots_; }
  float factor() const { return factor_; }  // 1/N: multiplies every EST's gradient before the addition

  // Folds one EST's gradient (null: absent) of a parameter into this worker's stack. `arrival`: place of the EST in the
  // worker's range.
  void fold(size_t arrival, size_t parameter, const float* gradient);
  // Does the same with the gradient of a table of embeddings, by rows (row_sums.h): the same bits. `sizes`: of the
  // parameter.
  void fold_table(size_t arrival, size_t parameter, const GradientFactors& gradient, at::IntArrayRef sizes);
  // Returns whether this worker has summed earlier ESTs' gradients of a parameter by rows.
  bool has_rows(size_t arrival, size_t parameter) const;

  // Returns elements [begin, begin + n) of the sum over all ESTs. The elements are in `scratch` (scratch_floats(n)
  // floats) or in other memory. Null if no EST reached the parameter.
  const float* sum(size_t parameter, size_t begin, size_t n, float* scratch) const;
  // Returns the sum for a stage with one worker, before the last EST's gradient, `last` (null: absent), is folded.
  const float* sum_with_last(size_t parameter, const float* last, size_t begin, size_t n, float* scratch) const;
  size_t scratch_floats(size_t n) const { return n * static_cast<size_t>(finish_.depth); }

  // Returns the slot for a whole summed gradient: the first source's. A piece may be written as soon as it is read, but
  // call begin_whole_sum() first.
  float* sum_target(size_t parameter) const;
  void begin_whole_sum(size_t parameter) const;

 private:
  uint8_t& presence(int64_t slot, size_t parameter) const { return memory_.gradients()[slot].presence[parameter]; }
  RowsPlace rows_place(int64_t slot, size_t parameter) const;
  void widen(int64_t slot, size_t parameter) const;
  // Of a whole sum.
  est::Partial partial(int64_t slot, size_t parameter, size_t begin) const;
  // Of any sum; `scratch`: n floats.
  est::Partial partial(int64_t slot, size_t parameter, size_t begin, size_t n, float* scratch) const;
  void fold_by_rows(size_t arrival, size_t parameter, RowsView gradient);

  const ModelPlaces& places_;
  comm::JobMemory& memory_;
  RowMarks& marks_;
  comm::FoldPlan fold_;
  comm::FinishPlan finish_;
  std::vector<int64_t> source_slots_;  // slot of each source of finish_
  RowValues own_rows_, folded_rows_;
  int64_t own_first_slot_ = 0;
  int64_t slots_ = 0;
  float factor_;
};

}  // namespace estrain::train
