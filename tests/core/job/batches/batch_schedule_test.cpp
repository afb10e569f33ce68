#include "core/job/batches/batch_schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace estrain::batches {
namespace {

// The definition: a walk, sample by sample.
struct Walk {
  explicit Walk(const BatchSchedule& of) : schedule(of), size(std::min(of.batch, of.samples_per_est)) { settle(); }

  void take_changes() {
    for (const BatchChange& change : schedule.changes) {
      if (change.after != step) continue;
      size = std::min(change.batch, schedule.samples_per_est);
      factor = change.lr_factor;
    }
    settle();
  }
  int64_t mini_batch() const { return std::min(size, schedule.samples_per_est - at.samples); }
  void settle() {
    const int64_t left = schedule.samples_per_est - at.samples;
    if (left == 0 || (schedule.drop_last && left < size)) at = {at.epoch.next(), 0};
  }
  void take() {
    at.samples += mini_batch();
    ++step;
    settle();
  }

  const BatchSchedule& schedule;
  int64_t size;
  double factor = 1;
  int64_t step = 0;
  Cursor at;
};

BatchSchedule random_schedule(std::mt19937& random) {
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  BatchSchedule schedule{.samples_per_est = between(1, 12), .batch = 1, .drop_last = between(0, 1) == 1, .changes = {}};
  const int64_t most = schedule.drop_last ? schedule.samples_per_est : 15;
  schedule.batch = between(1, most);
  for (int64_t after = 0; (after += between(schedule.changes.empty() ? 0 : 1, 9)) < 40;)
    schedule.changes.push_back({after, between(1, most), 0.25 * static_cast<double>(between(1, 8))});
  return schedule;
}

TEST_CASE("positions, sizes and rates are those of a walk through the data") {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    const BatchSchedule schedule = random_schedule(random);
    Walk walk(schedule);
    Epoch before;
    std::vector<int64_t> sizes;
    for (walk.take_changes(); walk.step < 60; walk.take(), walk.take_changes()) {
      const Step step(walk.step);
      REQUIRE(schedule.cursor_at(step) == walk.at);
      REQUIRE(schedule.batch_size(step) == walk.mini_batch());
      REQUIRE(schedule.lr_factor(step) == walk.factor);
      REQUIRE(schedule.ends_epoch(step) == (walk.step > 0 && walk.at.epoch > before));
      for (Epoch ended = before; ended < walk.at.epoch;) REQUIRE(schedule.end_of(ended = ended.next()) == step);
      before = walk.at.epoch;
      sizes.push_back(walk.mini_batch());
    }
    CHECK(*std::ranges::max_element(sizes) <= schedule.largest_batch());
    for (size_t from = 0; from < sizes.size(); from += 7) {
      for (size_t to = from + 1; to <= sizes.size(); to += 5) {
        const auto shortest =
            std::min_element(sizes.begin() + static_cast<long>(from), sizes.begin() + static_cast<long>(to));
        REQUIRE(schedule.shortest_batch(Step(static_cast<int64_t>(from)), Step(static_cast<int64_t>(to))) == *shortest);
      }
    }
    CHECK_FALSE(schedule.shortest_batch(Step(7), Step(7)).has_value());
  }
}

TEST_CASE("a change goes on with the next sample of the same epoch") {
  const BatchSchedule schedule{.samples_per_est = 10, .batch = 2, .drop_last = false, .changes = {{2, 5, 2.5}}};
  CHECK(schedule.cursor_at(Step(1)) == Cursor{Epoch(0), 2});
  CHECK(schedule.cursor_at(Step(2)) == Cursor{Epoch(0), 4});
  CHECK(schedule.batch_size(Step(2)) == 5);
  CHECK(schedule.batch_size(Step(3)) == 1);
  CHECK(schedule.ends_epoch(Step(4)));
  CHECK(schedule.cursor_at(Step(4)) == Cursor{Epoch(1), 0});
  CHECK(schedule.end_of(Epoch(2)) == Step(6));
  CHECK(schedule.lr_factor(Step(1)) == 1);
  CHECK(schedule.lr_factor(Step(2)) == 2.5);
  CHECK(schedule.mean_batch(Step(1)) == 2);
  CHECK(schedule.mean_batch(Step(2)) == 5);
}

TEST_CASE("with drop_last, a change ends the epoch where less than a new mini-batch is left") {
  const BatchSchedule schedule{.samples_per_est = 10, .batch = 2, .drop_last = true, .changes = {{4, 3, 1}}};
  CHECK(schedule.cursor_at(Step(4)) == Cursor{Epoch(1), 0});
  CHECK(schedule.ends_epoch(Step(4)));
  CHECK(schedule.end_of(Epoch(1)) == Step(4));
  CHECK(schedule.end_of(Epoch(2)) == Step(7));
}

TEST_CASE("a batch size that gives an epoch without a mini-batch is found") {
  BatchSchedule schedule{.samples_per_est = 5, .batch = 5, .drop_last = true, .changes = {}};
  CHECK_FALSE(schedule.has_empty_epoch());
  schedule.changes = {{3, 6, 1}};
  CHECK(schedule.has_empty_epoch());
  schedule.drop_last = false;
  CHECK_FALSE(schedule.has_empty_epoch());
  schedule.samples_per_est = 0;
  CHECK(schedule.has_empty_epoch());
}

}  // namespace
}  // namespace estrain::batches
