// Expected values: DistributedSampler, DataLoader and torch.randperm of PyTorch 2.11.0.
#include "core/data/sampling/sampler.h"

#include <doctest/doctest.h>

#include "tests/core/data/data_files.h"
#include "tests/core/data/golden.h"

namespace estrain::data {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

std::vector<Batches> epoch_of(const Sampler& sampler, int64_t epoch) {
  std::vector<Batches> all;
  for (int64_t rank = 0; rank < sampler.ests(); ++rank) {
    Batches& batches = all.emplace_back();
    const batches::BatchSchedule& schedule = sampler.schedule();
    for (Step step = schedule.end_of(Epoch(epoch)); step < schedule.end_of(Epoch(epoch + 1)); ++step)
      batches.push_back(sampler.indices(step, VirtualRank(rank)));
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

TEST_CASE("behind a change of the batch size, an EST goes on with the samples that come next") {
  const Sampler plain(23, 3, 8, true, false, 1);  // 8 samples per EST
  Sampler::Options options{23, 3, 3, true, false, 1};
  options.changes = {{1, 2, 1}};
  const Sampler changed(options);
  for (int64_t rank = 0; rank < 3; ++rank) {
    std::vector<int64_t> taken;
    for (int64_t step = 0; step < 4; ++step)  // 3, 2, 2, 1
      for (const int64_t index : changed.indices(Step(step), VirtualRank(rank))) taken.push_back(index);
    CHECK(taken == plain.indices(Step(0), VirtualRank(rank)));
  }
  CHECK(changed.batch() == 3);
  options.changes = {{1, 9, 1}};
  CHECK(Sampler(options).batch() == 8);
  options.drop_last = true;
  CHECK(contains(error_of([&] { Sampler{options}; }).message(), "data.batch = 9"));
}

TEST_CASE("epochs in any order give the same samples") {
  const Sampler sampler(50, 2, 25, true, false, 3);
  const auto at = [&](int64_t epoch) { return sampler.indices(Step(epoch), VirtualRank(1)); };
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
  CHECK(Sampler(10, 4, 4, true, false, 0).schedule().end_of(Epoch(1)) == Step(1));
  CHECK(error_of([] { Sampler(0, 4, 4, true, false, 0); }).fault() == Fault::infeasible);
  CHECK(error_of([] { Sampler(4, 0, 4, true, false, 0); }).fault() == Fault::bug);
}

TEST_CASE("a batch larger than an EST's share is that share") {
  const Sampler sampler(10, 4, INT64_MAX, true, false, 0);
  CHECK(sampler.batch() == 3);
  CHECK(sampler.schedule().batch_size(Step(0)) == 3);
  CHECK(sampler.schedule().cursor_at(Step(1)) == Cursor{Epoch(1), 0});
}

TEST_CASE("randperm gives torch's order, with torch's 32 bits of the seed") {
  struct Case {
    int64_t n;
    uint64_t seed;
    std::vector<int64_t> order;
  };
  const std::vector<Case> cases = {
      {0, 0u, {}},
      {1, 5u, {0}},
      {2, 1u, {1, 0}},
      {10, 0u, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
      {10, 1u, {5, 6, 1, 2, 0, 8, 9, 3, 7, 4}},
      {10, 4294967296u, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
      {10, 4294967297u, {5, 6, 1, 2, 0, 8, 9, 3, 7, 4}},
      {13, 9223372036854775807u, {9, 7, 2, 12, 1, 5, 0, 4, 3, 6, 11, 8, 10}},
  };
  for (const Case& c : cases) CHECK(randperm(c.n, c.seed) == c.order);
}

TEST_CASE("randperm gives torch's order of many") {
  struct Case {
    int64_t n;
    uint64_t seed, hash;
  };
  const std::vector<Case> cases = {
      {1000, 123u, 0xfa3ca29315b396e1u},
      {4099, 7u, 0xc0f47ade8f66c632u},
      {60000, 0u, 0xc7c1e74f57935fb9u},
      {60000, 2u, 0x2aaf351de2557739u},
      {100003, 1099511627793u, 0x708c32157ba63de5u},
  };
  for (const Case& c : cases) {
    const std::vector<int64_t> order = randperm(c.n, c.seed);
    CHECK(fnv<int64_t>(order) == c.hash);
  }
}

}  // namespace estrain::data
