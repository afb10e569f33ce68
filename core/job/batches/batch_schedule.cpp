#include "core/job/batches/batch_schedule.h"

#include <algorithm>
#include <limits>

namespace estrain::batches {

// The steps after `begin` up to `end`, all with the same batch size.
struct BatchSchedule::Stretch {
  Step begin, end;
  Cursor start;  // position at `begin`; its epoch may have no mini-batch left
  int64_t batch = 1;
  double lr_factor = 1;
  size_t changes = 0;  // before or at `begin`
};

int64_t BatchSchedule::batches_in(int64_t samples, int64_t size) const {
  return samples / size + (!drop_last && samples % size != 0);
}

BatchSchedule::Stretch BatchSchedule::first_stretch() const {
  const Step end(changes.empty() ? std::numeric_limits<int64_t>::max() : changes.front().after);
  return {Step(0), end, {}, std::min(batch, samples_per_est), 1, 0};
}

// Moves to the next stretch. Returns false if there is no further stretch.
bool BatchSchedule::next(Stretch& stretch) const {
  if (stretch.changes == changes.size()) return false;
  const BatchChange& change = changes[stretch.changes];
  const Cursor start = cursor_in(stretch, stretch.end);
  const int64_t size = std::min(change.batch, samples_per_est);
  const size_t following = stretch.changes + 1;
  const Step end(following == changes.size() ? std::numeric_limits<int64_t>::max() : changes[following].after);
  stretch = {stretch.end, end, start, size, change.lr_factor, following};
  return true;
}

BatchSchedule::Stretch BatchSchedule::stretch_of(Step step) const {
  Stretch stretch = first_stretch();
  while (step >= stretch.end && next(stretch)) {
  }
  return stretch;
}

Cursor BatchSchedule::cursor_in(const Stretch& stretch, Step step) const {
  const int64_t steps = step.value - stretch.begin.value;
  const int64_t in_first = batches_in(samples_per_est - stretch.start.samples, stretch.batch);
  if (steps < in_first) return {stretch.start.epoch, stretch.start.samples + steps * stretch.batch};
  const int64_t per_epoch = batches_in(samples_per_est, stretch.batch), behind = steps - in_first;
  return {Epoch(stretch.start.epoch.value + 1 + behind / per_epoch), behind % per_epoch * stretch.batch};
}

Cursor BatchSchedule::cursor_at(Step step) const { return cursor_in(stretch_of(step), step); }

int64_t BatchSchedule::batch_size(Step step) const {
  const Stretch stretch = stretch_of(step);
  return std::min(stretch.batch, samples_per_est - cursor_in(stretch, step).samples);
}

bool BatchSchedule::ends_epoch(Step step) const {
  return step > Step(0) && cursor_at(step).epoch > cursor_at(Step(step.value - 1)).epoch;
}

Step BatchSchedule::end_of(Epoch epoch) const {
  if (epoch <= Epoch(0)) return Step(0);
  for (Stretch stretch = first_stretch();;) {
    if (stretch.start.epoch >= epoch) return stretch.begin;
    const int64_t in_first = batches_in(samples_per_est - stretch.start.samples, stretch.batch);
    const int64_t whole = epoch.value - stretch.start.epoch.value - 1;
    const Step end(stretch.begin.value + in_first + whole * batches_in(samples_per_est, stretch.batch));
    if (end <= stretch.end || !next(stretch)) return end;
  }
}

double BatchSchedule::lr_factor(Step step) const { return stretch_of(step).lr_factor; }

int64_t BatchSchedule::largest_batch() const {
  int64_t largest = batch;
  for (const BatchChange& change : changes) largest = std::max(largest, change.batch);
  return std::min(largest, samples_per_est);
}

bool BatchSchedule::has_empty_epoch() const {
  const auto empty = [this](int64_t size) { return batches_in(samples_per_est, size) == 0; };
  return samples_per_est < 1 || empty(batch) || std::ranges::any_of(changes, empty, &BatchChange::batch);
}

// The last mini-batch of the epoch under way at `from` may be shorter than the last of later epochs.
std::optional<int64_t> BatchSchedule::shortest_in(const Stretch& stretch, Step from, Step to) const {
  from = std::max(from, stretch.begin);
  to = std::min(to, stretch.end);
  if (from >= to) return std::nullopt;
  int64_t shortest = stretch.batch;
  int64_t left = samples_per_est - cursor_in(stretch, from).samples;
  for (int epochs = 0; epochs < 2; ++epochs) {
    const int64_t steps = batches_in(left, stretch.batch);
    from = Step(from.value + steps);
    if (from > to) break;
    shortest = std::min(shortest, left - (steps - 1) * stretch.batch);
    left = samples_per_est;
  }
  return shortest;
}

std::optional<int64_t> BatchSchedule::shortest_batch(Step from, Step to) const {
  std::optional<int64_t> shortest;
  Stretch stretch = first_stretch();
  do {
    const std::optional<int64_t> here = shortest_in(stretch, from, to);
    if (here) shortest = std::min(shortest.value_or(*here), *here);
  } while (next(stretch));
  return shortest;
}

double BatchSchedule::mean_batch(Step step) const {
  const int64_t size = stretch_of(step).batch, count = batches_in(samples_per_est, size);
  return static_cast<double>(std::min(count * size, samples_per_est)) / static_cast<double>(count);
}

}  // namespace estrain::batches
