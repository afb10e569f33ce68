#pragma once
// The places of all tensors in a copy of the state: the start of the copy, `base`, and an offset.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/engine/model/model.h"
#include "core/engine/optim/optimizer.h"
#include "core/engine/optim/schedule.h"
#include "core/engine/train/state/model_places.h"
#include "core/job/spec/job_spec.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::train {

// OptimizerPlaces are the places of the optimizer's tensors: for each parameter the slots, and the count of the updates
// applied to the parameter.
class OptimizerPlaces {
 public:
  // Appends the places to `layout`.
  OptimizerPlaces(const optim::Optimizer& optimizer, const model::NamedTensors& tensors,
                  checkpoint::StateLayout& layout);

  float* slot(std::byte* base, size_t parameter, size_t k) const {
    return reinterpret_cast<float*>(base + slot_offset(parameter, k));
  }
  size_t slot_offset(size_t parameter, size_t k) const { return slots_[parameter][k].offset; }
  const std::vector<int64_t>& slot_sizes(size_t parameter, size_t k) const { return slots_[parameter][k].sizes; }
  size_t slot_elements(size_t parameter, size_t k) const { return slots_[parameter][k].elements; }
  size_t num_slots(size_t parameter) const { return slots_[parameter].size(); }

  int64_t* updates(std::byte* base, size_t parameter) const {
    return reinterpret_cast<int64_t*>(base + updates_[parameter]);
  }
  // Counts a step's update of a parameter reached by an EST: torch.optim skips parameters without a gradient.
  void count_update(std::byte* old_state, std::byte* new_state, size_t parameter, bool reached) const {
    *updates(new_state, parameter) = *updates(old_state, parameter) + (reached ? 1 : 0);
  }
  void copy_updates(std::byte* to, std::byte* from) const;  // of all parameters

 private:
  struct Slot {
    uint64_t offset;
    size_t elements;
    std::vector<int64_t> sizes;
  };

  std::vector<std::vector<Slot>> slots_;  // [parameter][k]
  std::vector<uint64_t> updates_;
};

// The random streams of each EST.
struct EstStreams {
  bool cuda = false;        // has a CUDA generator besides the CPU's
  size_t python_bytes = 0;  // of the streams of a Python module; 0: no streams
};

// EstPlaces are the places of each EST's random streams and last loss.
class EstPlaces {
 public:
  // Appends the places to `layout`, EST by EST.
  EstPlaces(int64_t ests, const EstStreams& streams, checkpoint::StateLayout& layout);

  EstRange all() const { return {VirtualRank(0), VirtualRank(static_cast<int64_t>(ests_.size()))}; }

  std::byte* generator(std::byte* base, VirtualRank rank) const { return base + of(rank).generator; }
  bool has_cuda_streams() const { return has_cuda_streams_; }
  std::byte* cuda_generator(std::byte* base, VirtualRank rank) const { return base + of(rank).cuda_generator; }
  size_t python_bytes() const { return python_bytes_; }  // of an EST's streams of a Python module; 0: no streams
  std::byte* python_streams(std::byte* base, VirtualRank rank) const { return base + of(rank).python_streams; }
  float* last_loss(std::byte* base, VirtualRank rank) const {
    return reinterpret_cast<float*>(base + of(rank).last_loss);
  }

 private:
  struct Est {
    uint64_t generator = 0, last_loss = 0, python_streams = 0, cuda_generator = 0;
  };

  const Est& of(VirtualRank rank) const { return ests_[static_cast<size_t>(rank.value)]; }

  bool has_cuda_streams_;
  size_t python_bytes_;
  std::vector<Est> ests_;
};

// MetricPlaces are the places for past evaluations: the knowledge of schedule "plateau" and of the early stop. Schedule
// and early stop each have a place only if the job uses them.
class MetricPlaces {
 public:
  // The schedule's state, and the learning rate of each parameter group.
  struct Plateau {
    optim::PlateauState state;
    std::vector<double> rates;
  };

  // Appends the places to `layout`. `groups`: the optimizer's parameter groups. Throws Fault::spec if a place needs
  // evaluations and the job has none.
  MetricPlaces(const spec::JobSpec& spec, size_t groups, bool evaluates, checkpoint::StateLayout& layout);

  bool has_plateau() const { return plateau_at_.has_value(); }
  Plateau read_plateau(const std::byte* base) const;
  void write_plateau(std::byte* base, const Plateau& plateau) const;
  void copy_plateau(std::byte* to, const std::byte* from) const;  // does nothing without plateau
  double first_rate(const std::byte* base) const;                 // of parameter group 0

  bool has_early_stop() const { return early_stop_at_.has_value(); }
  // [0]: the best metric, [1]: the evaluations since then
  double* early_stop(std::byte* base) const { return reinterpret_cast<double*>(base + *early_stop_at_); }

 private:
  size_t plateau_bytes() const;

  size_t groups_;
  std::optional<uint64_t> plateau_at_, early_stop_at_;
};

// AveragePlaces are the places of the parameters' averages (ema.decay), laid out like the parameters.
class AveragePlaces {
 public:
  AveragePlaces() = default;  // for a job without averages
  // Appends the place of one average for each parameter to `layout`.
  AveragePlaces(const model::NamedTensors& tensors, checkpoint::StateLayout& layout);

  bool are_kept() const { return !at_.empty(); }
  float* average(std::byte* base, size_t parameter) const { return reinterpret_cast<float*>(base + at_[parameter]); }
  std::byte* averages(std::byte* base) const { return base + at_.front(); }

 private:
  std::vector<uint64_t> at_;
};

// StatePlaces holds the places of all parts. Each part appends its own places to the layout, in the order of the
// members.
struct StatePlaces {
  ModelPlaces model;
  OptimizerPlaces optimizer;
  EstPlaces ests;
  MetricPlaces metrics;
  AveragePlaces averages;
  uint64_t bytes;  // of one copy

  // Returns the digest of a parameter's values and slots in the copy `base`.
  uint64_t digest_of_parameter(std::byte* base, size_t parameter) const;
};

}  // namespace estrain::train
