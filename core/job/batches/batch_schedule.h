#pragma once
// The size of every mini-batch of a job, and where each step stands in the data.
//
// Every EST has a list of the same length for each epoch (data/sampling/sampler.h) and takes it from its start, a
// mini-batch at each step. The last mini-batch of an epoch is short, or is left out with drop_last. A change of the
// batch size does not move the position: the step behind it goes on with the sample that comes next in the same epoch,
// so that an epoch has each of its samples once, whatever changes. With drop_last, an epoch ends at a change that
// leaves less than one new mini-batch of it.
//
// All of it follows from the settings. A batch schedule has no state that a checkpoint needs.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/job/batches/batch_change.h"

namespace estrain::batches {

// A job's position in its data. Counts samples, not steps, so that it stays meaningful if the batch size changes.
struct Cursor {
  Epoch epoch;
  int64_t samples = 0;  // consumed by each virtual rank in this epoch

  constexpr auto operator<=>(const Cursor&) const = default;
};

struct BatchSchedule {
  int64_t samples_per_est = 1;  // length of every EST's list, >= 1
  int64_t batch = 1;            // samples per EST and step before the first change
  bool drop_last = false;
  std::vector<BatchChange> changes;  // in the order of their steps, one at most for a step

  // The position from which the step after `step` starts. It is never the end of an epoch, but the start of the next.
  Cursor cursor_at(Step step) const;
  // The number of samples in each EST's mini-batch of the step after `step`.
  int64_t batch_size(Step step) const;
  // Whether an epoch ends with `step`, or by a change after it.
  bool ends_epoch(Step step) const;
  // The first step that has completed this many epochs.
  Step end_of(Epoch epoch) const;
  // The factor on the rates for the update after `step`.
  double lr_factor(Step step) const;

  // Over all steps: size of the largest mini-batch; whether some batch size gives an epoch without a mini-batch.
  int64_t largest_batch() const;
  bool has_empty_epoch() const;
  // The smallest mini-batch of the steps after `from` up to `to`. Nothing if there are none.
  std::optional<int64_t> shortest_batch(Step from, Step to) const;
  // Mean size of an EST's mini-batches in an epoch with the batch size of the step after `step`.
  double mean_batch(Step step) const;

  bool operator==(const BatchSchedule&) const = default;

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("samples_per_est", self.samples_per_est);
    visit("batch", self.batch);
    visit("drop_last", self.drop_last);
    visit("changes", self.changes);
  }

 private:
  struct Stretch;

  int64_t batches_in(int64_t samples, int64_t size) const;
  Stretch first_stretch() const;
  bool next(Stretch& stretch) const;
  Stretch stretch_of(Step step) const;
  Cursor cursor_in(const Stretch& stretch, Step step) const;
  std::optional<int64_t> shortest_in(const Stretch& stretch, Step from, Step to) const;
};

}  // namespace estrain::batches
