// Expected values: DistributedSampler, DataLoader and torch.randperm of PyTorch 2.11.0.
#include "core/data/sampling/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/core/data/data_files.h"
#include "tests/core/data/golden.h"

namespace estrain::data {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

std::vector<Batches> epoch_of(const EpochSampler& sampler, int64_t epoch) {
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
    EpochSampler::Options options;
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
  for (const Case& c : cases) CHECK(epoch_of(EpochSampler(c.options), c.epoch) == c.expected);
}

TEST_CASE("behind a change of the batch size, an EST goes on with the samples that come next") {
  const EpochSampler plain(23, 3, 8, true, false, 1);  // 8 samples per EST
  EpochSampler::Options options{23, 3, 3, true, false, 1};
  options.changes = {{1, 2, 1}};
  const EpochSampler changed(options);
  for (int64_t rank = 0; rank < 3; ++rank) {
    std::vector<int64_t> taken;
    for (int64_t step = 0; step < 4; ++step)  // 3, 2, 2, 1
      for (const int64_t index : changed.indices(Step(step), VirtualRank(rank))) taken.push_back(index);
    CHECK(taken == plain.indices(Step(0), VirtualRank(rank)));
  }
  CHECK(changed.batch() == 3);
  options.changes = {{1, 9, 1}};
  CHECK(EpochSampler(options).batch() == 8);
  options.drop_last = true;
  CHECK(contains(error_of([&] { EpochSampler{options}; }).message(), "data.batch = 9"));
}

namespace {

// Lengths 1 to 20, most of them short.
std::vector<int64_t> skewed_lengths(int64_t samples) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < samples; ++i) lengths.push_back(1 + 19 * (i * i % 101) * (i * i % 101) / 10000);
  return lengths;
}

EpochSampler::Options bucketed(int64_t samples, int64_t ests, int64_t batch, int64_t bucket) {
  EpochSampler::Options options{samples, ests, batch, true, false, 7};
  options.lengths = skewed_lengths(samples);
  options.bucket = bucket;
  return options;
}

std::multiset<int64_t> samples_of(const std::vector<Batches>& epoch) {
  std::multiset<int64_t> samples;
  for (const Batches& batches : epoch)
    for (const std::vector<int64_t>& batch : batches) samples.insert(batch.begin(), batch.end());
  return samples;
}

// The padded places of an epoch.
int64_t places_of(const std::vector<Batches>& epoch, const std::vector<int64_t>& lengths) {
  int64_t places = 0;
  for (const Batches& batches : epoch) {
    for (const std::vector<int64_t>& batch : batches) {
      int64_t longest = 0;
      for (const int64_t sample : batch) longest = std::max(longest, lengths[static_cast<size_t>(sample)]);
      places += longest * std::ssize(batch);
    }
  }
  return places;
}

}  // namespace

TEST_CASE("buckets order the samples of an epoch anew: the same ones, with little padding") {
  EpochSampler::Options options = bucketed(1001, 3, 8, 10);  // 334 each: 41 whole steps and one of 6 samples
  const EpochSampler sorted(options);
  options.bucket = 0;
  const EpochSampler plain(options);
  int64_t with = 0, without = 0;
  for (const int64_t epoch : {0, 1, 5}) {
    const std::vector<Batches> order = epoch_of(sorted, epoch), before = epoch_of(plain, epoch);
    CHECK(samples_of(order) == samples_of(before));
    CHECK(order != before);
    for (size_t rank = 0; rank < 3; ++rank) CHECK(order[rank].back() == before[rank].back());  // the short ones
    with += places_of(order, options.lengths), without += places_of(before, options.lengths);
  }
  CHECK(with < without * 2 / 3);
  CHECK(epoch_of(sorted, 0) != epoch_of(sorted, 1));
}

TEST_CASE(
    "a window of buckets has the samples of its own steps, sorted; the ESTs of a step have neighbouring lengths") {
  const EpochSampler::Options options = bucketed(960, 4, 6, 8);
  const EpochSampler sampler(options), plain(960, 4, 6, true, false, 7);
  const std::vector<Batches> order = epoch_of(sampler, 2), before = epoch_of(plain, 2);
  const auto length = [&](int64_t sample) { return options.lengths[static_cast<size_t>(sample)]; };
  int64_t rising = 0;
  std::set<size_t> shortest_at;
  for (size_t window = 0; window < 5; ++window) {
    std::multiset<int64_t> ours, theirs;
    std::map<int64_t, int64_t> steps;  // shortest and longest sample
    for (size_t step = window * 8; step < window * 8 + 8; ++step) {
      std::vector<int64_t> lengths;
      size_t shortest = 0;
      for (size_t rank = 0; rank < 4; ++rank) {
        const std::vector<int64_t>& batch = order[rank][step];
        ours.insert(batch.begin(), batch.end());
        theirs.insert(before[rank][step].begin(), before[rank][step].end());
        for (const int64_t sample : batch) lengths.push_back(length(sample));
        CHECK(std::ranges::is_sorted(batch, {}, length));
        if (length(batch.front()) < length(order[shortest][step].front())) shortest = rank;
      }
      shortest_at.insert(shortest);
      std::ranges::sort(lengths);
      int64_t& longest = steps[lengths.front()];
      longest = std::max(longest, lengths.back());
      if (step % 8 > 0) rising += length(order[0][step].front()) >= length(order[0][step - 1].front());
    }
    CHECK(ours == theirs);
    int64_t last = 0;
    for (const auto& [shortest, longest] : steps) {
      CHECK(shortest >= last);
      last = longest;
    }
  }
  CHECK(shortest_at.size() == 4);  // no EST always has the shortest mini-batch
  CHECK(rising < 33);              // of 35: steps come in a random order
}

// From scripts/peers/samplers.py, which restates length_buckets.h: windows of 2, 2 and 1 steps, and a short mini-batch.
TEST_CASE("the order of buckets is fixed, also in the last window of an epoch, which is shorter") {
  const EpochSampler sampler(bucketed(31, 2, 3, 2));
  CHECK(epoch_of(sampler, 0) ==
        std::vector<Batches>{{{22, 9, 17}, {23, 16, 13}, {11, 27, 15}, {7, 24, 28}, {2, 1, 6}, {19}},
                             {{30, 20, 10}, {25, 18, 5}, {4, 0, 3}, {29, 21, 12}, {8, 26, 14}, {5}}});
  CHECK(epoch_of(sampler, 3) ==
        std::vector<Batches>{{{6, 16, 24}, {18, 0, 3}, {23, 21, 29}, {22, 17, 20}, {8, 28, 14}, {26}},
                             {{9, 30, 10}, {11, 15, 5}, {27, 25, 4}, {7, 19, 13}, {1, 2, 12}, {10}}});
}

TEST_CASE(
    "a step's samples do not depend on what was asked before; a change of the batch keeps a begun epoch's order") {
  EpochSampler::Options options = bucketed(240, 2, 6, 5);  // 20 steps an epoch
  const EpochSampler whole(options);
  CHECK(EpochSampler(options).indices(Step(33), VirtualRank(1)) == whole.indices(Step(33), VirtualRank(1)));
  std::vector<int64_t> of_rank;
  for (int64_t step = 0; step < 20; ++step)
    for (const int64_t sample : whole.indices(Step(step), VirtualRank(0))) of_rank.push_back(sample);
  options.changes = {{7, 3, 1}};
  const EpochSampler changed(options);
  std::vector<int64_t> taken;
  for (int64_t step = 0; step < 7 + 26; ++step)
    for (const int64_t sample : changed.indices(Step(step), VirtualRank(0))) taken.push_back(sample);
  CHECK(taken == of_rank);
  options.changes = {};
  options.batch = 3;  // the next epoch is sorted for the new batch
  CHECK(changed.indices(Step(33), VirtualRank(1)) == EpochSampler(options).indices(Step(40), VirtualRank(1)));
}

TEST_CASE("a sampler that takes changes of the batch gives the samples of a sampler made with them") {
  for (const int64_t after : {7, 20, 33}) {  // 20: the end of an epoch, whose next order was read ahead
    CAPTURE(after);
    EpochSampler::Options options = bucketed(240, 2, 6, 5);
    EpochSampler sampler(options);
    for (int64_t step = 0; step < 44; ++step) sampler.indices(Step(step), VirtualRank(0));
    options.changes = {{after, 4, 1}};
    sampler.change_batches(options.changes);
    const EpochSampler fresh(options);
    CHECK((sampler.schedule() == fresh.schedule()));
    for (int64_t step = 0; step < 80; ++step)
      for (const int64_t rank : {0, 1})
        REQUIRE(sampler.indices(Step(step), VirtualRank(rank)) == fresh.indices(Step(step), VirtualRank(rank)));
  }
  EpochSampler dropping(10, 2, 5, true, true, 0);
  CHECK(error_of([&] { dropping.change_batches({{1, 6, 1}}); }).fault() == Fault::infeasible);
}

TEST_CASE("buckets of repeated samples: more ESTs than samples, and draws by weight") {
  const std::vector<Batches> repeated = epoch_of(EpochSampler(bucketed(3, 8, 1, 4)), 0);
  const std::vector<Batches> plain = epoch_of(EpochSampler(3, 8, 1, true, false, 7), 0);
  CHECK(samples_of(repeated) == samples_of(plain));
  EpochSampler::Options options = bucketed(100, 2, 5, 4);
  options.weights = std::vector<double>(100, 1);
  const EpochSampler drawn(options);
  options.bucket = 0;
  CHECK(samples_of(epoch_of(drawn, 1)) == samples_of(epoch_of(EpochSampler(options), 1)));
  CHECK(epoch_of(drawn, 1) != epoch_of(EpochSampler(options), 1));
}

TEST_CASE("epochs in any order give the same samples") {
  const EpochSampler sampler(50, 2, 25, true, false, 3);
  const auto at = [&](int64_t epoch) { return sampler.indices(Step(epoch), VirtualRank(1)); };
  const auto first = at(0), third = at(2);
  CHECK(first != third);
  CHECK(at(0) == first);
  CHECK(at(1) != first);
  CHECK(at(2) == third);
}

TEST_CASE("an epoch without a mini-batch is refused") {
  const Error error = error_of([] { EpochSampler(10, 4, 4, true, true, 0); });
  CHECK(error.fault() == Fault::infeasible);
  CHECK(contains(error.message(), "3 each"));
  CHECK(contains(error.advice(), "at most 3"));
  CHECK(EpochSampler(10, 4, 4, true, false, 0).schedule().end_of(Epoch(1)) == Step(1));
  CHECK(error_of([] { EpochSampler(0, 4, 4, true, false, 0); }).fault() == Fault::infeasible);
  CHECK(error_of([] { EpochSampler(4, 0, 4, true, false, 0); }).fault() == Fault::bug);
}

TEST_CASE("a batch larger than an EST's share is that share") {
  const EpochSampler sampler(10, 4, INT64_MAX, true, false, 0);
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

namespace {

EpochSampler::Options weighted_options(uint64_t seed) {
  EpochSampler::Options options{7, 2, 3, true, false, seed};
  options.weights = {1, 0, 3, 0.5, 2, 0.25, 7};
  return options;
}

const std::vector<int64_t> kLabels = {0, 1, 2, 0, 5, 1, 2, 0, 5, 5, 5, 1};

EpochSampler::Options group_options(int64_t ests, int64_t batch, int64_t per_class) {
  EpochSampler::Options options{static_cast<int64_t>(kLabels.size()), ests, batch, true, false, 7};
  options.labels = kLabels;
  options.per_class = per_class;
  return options;
}

}  // namespace

TEST_CASE("draws by weight are those of torch's WeightedRandomSampler, dealt out as a permutation is") {
  const WeightedDraws draws(weighted_options(0).weights);
  CHECK(draws.draw(0) == std::vector<int64_t>{6, 6, 4, 6, 6, 6, 2});
  CHECK(draws.draw(5) == std::vector<int64_t>{6, 2, 4, 3, 2, 6, 6});
  CHECK(draws.draw(9) == std::vector<int64_t>{2, 6, 4, 2, 0, 6, 2});
  CHECK(draws.draw(5 + (uint64_t{1} << 32)) == draws.draw(5));
  CHECK(epoch_of(EpochSampler(weighted_options(4)), 1) == std::vector<Batches>{{{6, 4, 2}, {6}}, {{2, 3, 6}, {6}}});
}

TEST_CASE("weights decide how often a sample is drawn; a weight of 0 means never") {
  std::vector<double> weights(1000, 0.0);
  for (size_t i = 0; i < weights.size(); i += 2) weights[i] = i < 500 ? 3 : 1;
  const WeightedDraws draws(weights);
  int64_t often = 0, never = 0;
  for (uint64_t seed = 0; seed < 100; ++seed)
    for (const int64_t drawn : draws.draw(seed)) often += drawn < 500, never += drawn % 2;
  CHECK(never == 0);
  CHECK(often > 74'300);  // of 100000, with a standard deviation of 137
  CHECK(often < 75'700);
}

TEST_CASE("balanced weights draw every class equally often") {
  std::vector<int64_t> labels(900, 3);
  labels.resize(1000, 8);
  const WeightedDraws draws(balancing_weights(labels));
  int64_t rare = 0;
  for (uint64_t seed = 0; seed < 100; ++seed)
    for (const int64_t drawn : draws.draw(seed)) rare += drawn >= 900;
  CHECK(rare > 49'200);  // a standard deviation is 158
  CHECK(rare < 50'800);
}

TEST_CASE("groups of classes are those of the Python restatement, scripts/peers/samplers.py") {
  const ClassGroups pairs(kLabels, 2, 7), fours(kLabels, 4, 7);
  const auto taken = [](const ClassGroups& groups, int64_t place, size_t size) {
    std::vector<int64_t> samples(size);
    groups.indices(Epoch(3), place, 0, samples);
    return samples;
  };
  CHECK(pairs.classes() == 4);
  CHECK(taken(pairs, 0, 6) == std::vector<int64_t>{7, 0, 10, 8, 6, 2});
  CHECK(taken(pairs, 4, 6) == std::vector<int64_t>{3, 7, 8, 4, 5, 1});
  CHECK(taken(fours, 4, 8) == std::vector<int64_t>{3, 7, 7, 0, 11, 5, 5, 5});
  CHECK(taken(fours, 13, 8) == std::vector<int64_t>{10, 8, 4, 9, 2, 6, 6, 6});
}

TEST_CASE("a part of a mini-batch of groups is the same as in the whole") {
  const ClassGroups groups(kLabels, 3, 1);
  std::vector<int64_t> whole(12);
  groups.indices(Epoch(0), 5, 0, whole);
  for (size_t first = 0; first < whole.size(); ++first)
    for (size_t size = 0; first + size <= whole.size(); ++size) {
      std::vector<int64_t> part(size);
      groups.indices(Epoch(0), 5, static_cast<int64_t>(first), part);
      CHECK(std::ranges::equal(part, std::span(whole).subspan(first, size)));
    }
}

TEST_CASE("every mini-batch has per_class samples of each of its classes, at every place") {
  const EpochSampler sampler(group_options(2, 6, 2));  // 6 samples each
  CHECK(sampler.samples_per_est() == 6);
  for (int64_t step = 0; step < 50; ++step)
    for (int64_t rank = 0; rank < 2; ++rank) {
      std::map<int64_t, std::set<int64_t>> classes;
      for (const int64_t sample : sampler.indices(Step(step), VirtualRank(rank)))
        classes[kLabels[static_cast<size_t>(sample)]].insert(sample);
      CHECK(classes.size() == 3);
      for (const auto& [label, samples] : classes) CHECK(samples.size() == 2);
    }
  CHECK(sampler.indices(Step(0), VirtualRank(0)) != sampler.indices(Step(0), VirtualRank(1)));
  CHECK(sampler.indices(Step(0), VirtualRank(0)) != sampler.indices(Step(1), VirtualRank(0)));
}

TEST_CASE("an EST's list is rounded down to whole groups, and its short batch is whole groups, too") {
  const EpochSampler sampler(group_options(3, 4, 3));  // 4 samples each
  CHECK(sampler.samples_per_est() == 3);
  const EpochSampler three(group_options(1, 9, 3));
  CHECK(three.schedule().batch_size(Step(0)) == 9);
  CHECK(three.schedule().batch_size(Step(1)) == 3);
  CHECK(three.indices(Step(1), VirtualRank(0)).size() == 3);
}

TEST_CASE("a changed batch leaves the draws of the epoch's other mini-batches as they are") {
  EpochSampler::Options options = group_options(1, 4, 2);  // 4, 4, 4
  const EpochSampler plain(options);
  options.changes = {{1, 8, 1}};  // 4, 8
  const EpochSampler changed(options);
  const std::vector<int64_t> longer = changed.indices(Step(1), VirtualRank(0));
  REQUIRE(longer.size() == 8);
  CHECK(std::ranges::equal(std::span(longer).first(4), plain.indices(Step(1), VirtualRank(0))));
  CHECK(changed.schedule().cursor_at(Step(2)) == Cursor{Epoch(1), 0});
}

TEST_CASE("behind a change of the batch size, an EST goes on with the draws that come next") {
  EpochSampler::Options options = weighted_options(4);
  const EpochSampler plain(options);  // 3, 1
  options.changes = {{2, 2, 1}};
  const EpochSampler changed(options);  // 3, 1, 2, 2
  for (const VirtualRank rank : {VirtualRank(0), VirtualRank(1)}) {
    std::vector<int64_t> before = plain.indices(Step(2), rank), after = changed.indices(Step(2), rank);
    std::ranges::copy(plain.indices(Step(3), rank), std::back_inserter(before));
    std::ranges::copy(changed.indices(Step(3), rank), std::back_inserter(after));
    CHECK(before == after);
  }
}

TEST_CASE("too many classes for a mini-batch, and too few samples for a group, are refused in words") {
  const Error many = error_of([] { EpochSampler{group_options(1, 12, 2)}; });
  CHECK(many.fault() == Fault::infeasible);
  CHECK(contains(many.message(), "12 samples with data.per_class = 2 has 6 classes, but only 4"));
  CHECK(contains(many.advice(), "at most 8"));
  const Error few = error_of([] { EpochSampler{group_options(6, 4, 4)}; });
  CHECK(contains(few.message(), "12 samples over 6 ESTs are 2 each, fewer than data.per_class = 4"));
}

}  // namespace estrain::data
