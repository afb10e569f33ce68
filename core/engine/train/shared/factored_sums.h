#pragma once
// Sums of gradients whose factors the hosts of a job send to each other (core/state/comm/gradient_factors.h). The
// host's workers write the factors of their ESTs, and compute the gradients of the ESTs of all other hosts from the
// factors that have arrived. A sum has the order of the tree, as everywhere: partial sums of the host's workers stand
// in the tree beside single gradients of other hosts' ESTs. Tables of embeddings are summed by the rows looked up, from
// the factors of all ESTs; their whole gradients are not computed at all.

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/engine/train/job/meeting.h"
#include "core/engine/train/job/stage_order.h"
#include "core/engine/train/shared/gradient_factors.h"
#include "core/engine/train/shared/row_marks.h"
#include "core/engine/train/shared/row_sums.h"
#include "core/engine/train/workplace/workplace.h"
#include "core/state/comm/gradient_factors.h"
#include "core/state/comm/job_memory.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::train {

class FactoredSums {
 public:
  // `may_cut`: passes need not compute the gradients of tables. `marks`: of this worker.
  FactoredSums(Workplace& place, const StageOrder& order, bool may_cut, RowMarks& marks);

  void begin_step(Step step);
  // Returns whether the parameter's gradient goes as factors.
  bool has_chosen(size_t parameter) const;
  // Before the backward pass of EST number `arrival` of this worker: the pass will write the factors of its gradients.
  // The gradients of tables are not computed while the result lives; `take` is called for each instead.
  [[nodiscard]] FactorWatch::Cuts watch(size_t arrival, const torch::Tensor& loss,
                                        const std::function<void(size_t parameter)>& take);
  // Returns whether the sum reads the factors of this pass's gradient, and so no partial sum.
  bool reads_factors(size_t parameter) const { return !by_factors_.empty() && by_factors_[parameter]; }
  // Returns whether the pass of this EST makes offers: then each gradient goes to offer(), as to est::GradientSink.
  bool makes_offers(size_t arrival) const { return is_offered_ && arrival == 0; }
  void offer(size_t parameter, const float* gradient);
  // After the backward pass. Throws Fault::infeasible if the pass has not written all factors.
  void end_pass(size_t arrival);

  // After the passes of all workers of the host: leaves the sums over all ESTs in gradient slot 0, where the couriers
  // leave the sums of other gradients. Returns false on abort.
  bool sum_all();

 private:
  // A source of the sum: a partial sum of this host, or the gradient of an EST elsewhere.
  struct Source {
    std::optional<int64_t> slot;
    VirtualRank rank;
  };

  struct Chosen {
    size_t parameter = 0, bytes = 0;  // of an EST's factors at most, with their head
  };

  void plan(const StageOrder& order);
  comm::FactorPlaces places_of(size_t parameter) const;
  VirtualRank rank_of(size_t arrival) const { return VirtualRank(own_.begin.value + static_cast<int64_t>(arrival)); }
  at::IntArrayRef sizes(size_t parameter) const { return place_.job.network().parameters()[parameter].sizes(); }
  std::vector<torch::Tensor> tensors(const std::vector<size_t>& parameters) const;
  void write(size_t arrival, size_t chosen, const GradientFactors& factors);
  void take_choice();
  // Throws Fault::infeasible if the ESTs do not agree.
  bool is_by_rows(size_t parameter) const;
  void sum_rows(size_t parameter);
  void sum(size_t parameter);

  Workplace& place_;
  comm::JobMemory& memory_;
  comm::WorkerPulse& pulse_;
  StageMeeting multiplied_;
  RowMarks& marks_;
  const bool may_cut_;
  const EstRange own_;
  const WorkerRank worker_;
  const Step first_step_;  // the state from which the stage begins
  const float factor_;
  comm::FinishPlan finish_;
  std::vector<Source> sources_;  // of finish_
  const std::vector<size_t> candidates_;
  std::vector<Chosen> chosen_;  // the last parameter first
  std::optional<FactorWatch> watch_;
  FactoredRows rows_;
  std::vector<GradientFactors> seen_;  // [parameter]: of the pass that makes offers
  // of the step under way
  bool is_offered_ = false;        // this worker's first EST makes offers
  std::vector<bool> written_;      // [arrival * chosen_.size() + chosen]
  uint32_t written_in_order_ = 0;  // all before are written
  std::vector<bool> by_factors_;   // [parameter]: reads_factors(); empty before the choice
};

}  // namespace estrain::train
