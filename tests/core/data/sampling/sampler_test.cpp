// Expected values: DistributedSampler and DataLoader of PyTorch 2.11.0.
#include "core/data/sampling/sampler.h"

#include <doctest/doctest.h>

#include "tests/core/data/data_files.h"

namespace estrain::data {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

std::vector<Batches> epoch_of(const Sampler& sampler, int64_t epoch) {
  std::vector<Batches> all;
  for (int64_t rank = 0; rank < sampler.ests(); ++rank) {
    Batches& batches = all.emplace_back();
    for (Cursor at{Epoch(epoch), 0}; at.epoch == Epoch(epoch); at = sampler.advance(at))
      batches.push_back(sampler.indices(at, VirtualRank(rank)));
  }
  return all;
}

}  // namespace

TEST_CASE("mini-batches are PyTorch's") {
  struct Case {
    Sampler::Options options;
    int64_t epoch;
    std::vector<Batches> expected;
  };
  const std::vector<Case> cases = {
      {{10, 4, 2, true, false, 0u}, 0, {{{4, 3}, {6}}, {{1, 9}, {2}}, {{7, 0}, {4}}, {{5, 8}, {1}}}},
      {{10, 4, 2, true, true, 0u}, 3, {{{6, 8}}, {{0, 5}}, {{3, 1}}, {{7, 9}}}},
      {{10, 3, 4, false, false, 9u}, 1, {{{0, 3, 6, 9}}, {{1, 4, 7, 0}}, {{2, 5, 8, 1}}}},
      {{3, 8, 1, true, false, 5u}, 2, {{{0}}, {{1}}, {{2}}, {{0}}, {{1}}, {{2}}, {{0}}, {{1}}}},
      {{7, 2, 3, true, false, 4294967297u}, 0, {{{0, 1, 5}, {4}}, {{6, 3, 2}, {0}}}},
  };
  for (const Case& c : cases) CHECK(epoch_of(Sampler(c.options), c.epoch) == c.expected);
}

TEST_CASE("a cursor walks through epochs of batches_per_epoch steps") {
  for (bool drop_last : {false, true}) {
    const Sampler sampler(23, 3, 3, true, drop_last, 1);  // 8 samples per EST: 3, 3, 2
    CHECK(sampler.samples_per_est() == 8);
    CHECK(sampler.batches_per_epoch() == (drop_last ? 2 : 3));
    Cursor at;
    for (int64_t step = 0; step < 10; ++step, at = sampler.advance(at)) {
      CHECK(at == sampler.cursor_at(Step(step)));
      CHECK(at.epoch.value == step / sampler.batches_per_epoch());
      CHECK(sampler.batch_size(at) == (step % sampler.batches_per_epoch() == 2 ? 2 : 3));
    }
  }
}

TEST_CASE("a cursor from another batch size is settled where it leaves no mini-batch") {
  const Sampler keep(20, 2, 4, true, false, 0), drop(20, 2, 4, true, true, 0);  // 10 samples per EST
  const Cursor seven{Epoch(2), 7};
  CHECK(keep.settle(seven) == seven);
  CHECK(keep.batch_size(seven) == 3);
  CHECK(drop.settle(seven) == Cursor{Epoch(3), 0});
  CHECK(keep.settle({Epoch(2), 10}) == Cursor{Epoch(3), 0});
}

TEST_CASE("epochs in any order give the same samples") {
  const Sampler sampler(50, 2, 25, true, false, 3);
  const auto at = [&](int64_t epoch) { return sampler.indices({Epoch(epoch), 0}, VirtualRank(1)); };
  const auto first = at(0), third = at(2);
  CHECK(first != third);
  CHECK(at(0) == first);
  CHECK(at(1) != first);
  CHECK(at(2) == third);
}

TEST_CASE("an epoch without a mini-batch is refused") {
  const Error error = error_of([] { Sampler(10, 4, 4, true, true, 0); });
  CHECK(error.fault() == Fault::infeasible);
  CHECK(contains(error.message(), "3 each"));
  CHECK(contains(error.advice(), "at most 3"));
  CHECK(Sampler(10, 4, 4, true, false, 0).batches_per_epoch() == 1);
  CHECK(error_of([] { Sampler(0, 4, 4, true, false, 0); }).fault() == Fault::infeasible);
  CHECK(error_of([] { Sampler(4, 0, 4, true, false, 0); }).fault() == Fault::bug);
}

TEST_CASE("a batch larger than an EST's share is that share") {
  const Sampler sampler(10, 4, INT64_MAX, true, false, 0);
  CHECK(sampler.batches_per_epoch() == 1);
  CHECK(sampler.batch() == 3);
  CHECK(sampler.batch_size({}) == 3);
  CHECK(sampler.advance({}) == Cursor{Epoch(1), 0});
}

}  // namespace estrain::data
