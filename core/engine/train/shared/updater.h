#pragma once
// Makes new parameters from the gradients of a step: sums, clips, updates and digests, piece by piece.
//
// New values are written to the copy of the next step. An Updater works in one of three ways, with the same bits:
//  - one worker, no clipping: each parameter is updated inside the hook with the parameter's last gradient,
//    while the gradient is in cache (the backward pass still reads weights of the old copy);
//  - several workers: workers claim pieces of all parameters from one counter once all partial sums are complete;
//  - clipping: first whole tensors are summed and the norms taken, then workers claim pieces.
// A piece is a part of a parameter, or a whole parameter where the optimizer needs it whole (whole_update.h). Of a
// table of embeddings, an optimizer that leaves rows without a gradient alone writes the marked rows only
// (row_marks.h).
//
// If a result or the norm is NaN or infinite, the step's record is marked as suspect. The sums are the same in all
// three ways, so the mark is the same, too. The carrier decides about a suspect step before the commit (carrier.h).

#include <functional>
#include <optional>
#include <vector>

#include "core/engine/train/carrier/gradient_squares.h"
#include "core/engine/train/job/job.h"
#include "core/engine/train/shared/gradient_store.h"
#include "core/engine/train/shared/row_marks.h"
#include "core/engine/train/state/model_places.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::train {

class Updater {
 public:
  Updater(TrainingJob& job, comm::JobMemory& memory, const GradientStore& gradients, GradientSquares& squares,
          RowMarks& marks, const StageOrder& order);

  // True: updates happen in the hooks of the last EST (update_in_hook). False: after the backward passes (update_all).
  bool in_hooks() const { return in_hooks_; }

  void begin_step(Step step);
  void update_in_hook(size_t parameter, const float* last_gradient);
  // Does the same once the last EST's gradient is folded, too.
  void update_folded(size_t parameter);
  // Both functions return false on abort.
  struct Waits {
    // Waits until the sums over all hosts are complete, from this element of the gradient slots on.
    std::function<bool(size_t begin)> for_sums;
    std::function<bool()> meet_when_summed;  // with all workers of the host
  };
  // Call this function when all partial sums of the host's workers are complete. Returns false on abort.
  bool update_all(const Waits& waits);

  // Returns the first parameter with a non-finite value or slot. A single worker calls this after all updates.
  comm::Nonfinite first_nonfinite_result() const;
  // Returns the norm of all gradients, used for clipping.
  float total_norm() const;
  // Leaves the step out: copies parameters, slots, update counts and digests from the old copy to the new copy.
  void leave_out();

 private:
  size_t piece_of(size_t parameter) const;  // elements
  void cut_pieces();
  void sum_whole(size_t parameter);
  float l2_norm(float* values, at::IntArrayRef sizes, at::IntArrayRef strides) const;  // no strides: in C order
  float clip_factor(float norm) const;
  // Returns the mean of the ESTs' gradients for a chunk of their sum (null: absent): the sum itself, or by weight the
  // sum times 1/(total weight), in scratch memory.
  const float* mean_of(const float* sum, size_t n);
  float factor_of_sum();
  // Updates [begin, begin + size) of a parameter; `gradient_of` gives the summed gradient of a chunk (null: absent).
  template <typename GradientOf>
  void update(const ParameterPiece& piece, GradientOf&& gradient_of);
  struct Written {
    uint64_t digest = 0;  // of the piece; of all pieces together, the parameter's digest
    bool reached = false, finite = true;
  };
  template <typename GradientOf>
  Written update_elements(const ParameterPiece& piece, GradientOf&& gradient_of);
  // Returns whether the update of a table leaves all rows alone that are not marked.
  bool rests_on_zeros(size_t parameter) const;
  template <typename GradientOf>
  Written update_rows(const ParameterPiece& piece, GradientOf&& gradient_of);
  template <typename GradientOf>
  void update_whole(size_t parameter, GradientOf&& gradient_of);
  // Returns the summed and clipped gradient of a parameter; undefined: absent.
  template <typename GradientOf>
  at::Tensor whole_gradient(size_t parameter, GradientOf&& gradient_of);
  // Updates the new copy, in which the old values are. Returns whether all results are finite.
  bool update_in_place(size_t parameter, const at::Tensor& gradient);
  uint64_t average_chunk(size_t parameter, size_t begin, size_t n);
  kernels::OptimizerDigest keep_chunk(size_t parameter, size_t begin, size_t n);
  // Copies a whole parameter and its slots to the new copy.
  void copy_old(size_t parameter);
  // The same for a piece of a parameter that is updated in pieces.
  void copy_old(const ParameterPiece& piece);
  kernels::OptimizerDigest digest_of_old(const ParameterPiece& piece) const;

  TrainingJob& job_;
  const StatePlaces& places_;
  comm::JobMemory& memory_;
  const GradientStore& gradients_;
  GradientSquares& squares_;
  RowMarks& marks_;
  const bool clips_;
  const bool in_hooks_;
  std::vector<ParameterPiece> pieces_;
  std::vector<float> scratch_, mean_;
  // of the step under way
  std::byte* old_state_ = nullptr;
  std::byte* new_state_ = nullptr;
  std::vector<double> rates_;
  comm::RecordView record_{};
  std::optional<comm::RecordView> record_before_;  // of the old state
  float factor_ = 1;
  std::optional<float> factor_of_sum_;  // by weight, once all ESTs' weights are known
  bool is_first_ = true;                // no parameter was ever updated
};

}  // namespace estrain::train
