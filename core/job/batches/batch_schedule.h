#pragma once
// The size of every mini-batch of a job, and where each step stands in the data.
//
// Every EST has a list of the same length for each epoch (data/sampling/sampler.h) and takes the list from its start, a
// mini-batch at each step. The last mini-batch of an epoch is short, or is left out with drop_last. A change of the
// batch size does not move the position: the next step begins with the next sample of the same epoch, and an epoch has
// each of its samples once, whatever changes. With drop_last, an epoch ends at a change that leaves less than one new
// mini-batch of the epoch.
//
// Everything follows from the settings. A batch schedule has no state for a checkpoint.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json/fields.h"
#include "core/job/batches/batch_change.h"

namespace estrain::batches {

// A Cursor is a job's position in the data. Counts samples, not steps: a change of the batch size leaves the position
// meaningful.
struct Cursor {
  Epoch epoch;
  int64_t samples = 0;  // consumed by each virtual rank in this epoch

  constexpr auto operator<=>(const Cursor&) const = default;
};

struct BatchSchedule {
  int64_t samples_per_est = 1;  // length of every EST's list, >= 1
  int64_t batch = 1;            // samples per EST and step before the first change
  bool drop_last = false;
  std::vector<BatchChange> changes;  // in the order of their steps, at most one for each step

  // Returns the position at the start of the step after `step`. At the end of an epoch, this is the next epoch's start.
  Cursor cursor_at(Step step) const;
  // Returns the number of samples in each EST's mini-batch of the step after `step`.
  int64_t batch_size(Step step) const;
  // Returns whether an epoch ends with `step`, or by a change after `step`.
  bool ends_epoch(Step step) const;
  // Returns the first step that has completed this many epochs.
  Step end_of(Epoch epoch) const;
  // Returns the factor on the rates for the update after `step`.
  double lr_factor(Step step) const;

  // Over all steps: the size of the largest mini-batch; whether a batch size gives an epoch without a mini-batch.
  int64_t largest_batch() const;
  bool has_empty_epoch() const;
  // Returns the smallest mini-batch of the steps after `from` up to `to`. Returns nothing without such steps.
  std::optional<int64_t> shortest_batch(Step from, Step to) const;
  // Returns the mean size of an EST's mini-batches in an epoch with the batch size of the step after `step`.
  double mean_batch(Step step) const;

  bool operator==(const BatchSchedule&) const = default;

  ESTRAIN_FIELDS(samples_per_est, batch, drop_last, changes)

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
