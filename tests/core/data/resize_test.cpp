// Property: for any stages and any assignment of ESTs to workers, each position of each epoch is consumed exactly once,
// by the same virtual rank and at the same step as in an undisturbed job.
#include <doctest/doctest.h>

#include <map>
#include <random>

#include "core/data/reading/loader.h"
#include "data_files.h"

namespace estrain::data {
namespace {

class Indices : public Dataset {
 public:
  explicit Indices(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  SampleShape shape() const override { return SampleShape::tokens(1); }
  int64_t classes() const override { return size_; }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override {
    *reinterpret_cast<int64_t*>(out_input) = index;
    *out_target = draw.words()[0];
  }

 private:
  int64_t size_;
};

struct Consumed {
  std::vector<int64_t> samples, draws;
  bool operator==(const Consumed&) const = default;
};
using Record = std::map<std::pair<int64_t, VirtualRank>, Consumed>;  // (step, rank)

class Random {
 public:
  explicit Random(uint32_t seed) : twister_(seed) {}
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(twister_() % static_cast<uint64_t>(high - low + 1));
  }

 private:
  std::mt19937 twister_;
};

std::vector<EstRange> random_split(Random& random, int64_t ests) {
  std::vector<EstRange> ranges;
  for (int64_t begin = 0; begin < ests;) {
    const int64_t end = random.between(begin + 1, ests);
    ranges.push_back({VirtualRank(begin), VirtualRank(end)});
    begin = end;
  }
  return ranges;
}

// Runs one stage, with a worker and its own loader for every range.
void run_stage(const Dataset& data, const EpochSampler& sampler, const std::vector<EstRange>& workers,
               int64_t first_step, int64_t steps, Random& random, Record& record) {
  for (size_t w = 0; w < workers.size(); ++w) {
    LoaderOptions options{random.between(1, 3), random.between(1, 6), 42, std::nullopt};
    if (random.between(0, 1)) options.steps = steps;
    Loader loader(data, sampler, workers[w], Step(first_step), options);
    for (int64_t step = first_step; step < first_step + steps; ++step) {
      for (VirtualRank rank = workers[w].begin; rank < workers[w].end; ++rank) {
        const LoadedBatch batch = loader.next();
        REQUIRE(batch.rank() == rank);
        REQUIRE(batch.cursor() == sampler.schedule().cursor_at(Step(step)));
        Consumed consumed{{batch.tokens(), batch.tokens() + batch.size()},
                          {batch.targets(), batch.targets() + batch.size()}};
        REQUIRE(record.emplace(std::pair{step, rank}, consumed).second);
      }
    }
  }
}

// How often the sample of each padded position must occur in an epoch.
std::map<int64_t, int64_t> expected_counts(const EpochSampler::Options& options) {
  std::map<int64_t, int64_t> counts;
  const int64_t share = (options.dataset_size + options.ests - 1) / options.ests;
  for (int64_t rank = 0; rank < options.ests; ++rank) {
    const EpochSampler sampler(options.dataset_size, options.ests, share, options.shuffle, false, options.seed);
    for (int64_t index : sampler.indices(Step(0), VirtualRank(rank))) ++counts[index];
  }
  return counts;
}

}  // namespace

TEST_CASE("any resize schedule consumes every position exactly once per epoch") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    EpochSampler::Options options;
    options.dataset_size = random.between(1, 80);
    options.ests = random.between(1, 9);
    options.batch = random.between(1, 6);
    options.shuffle = random.between(0, 3) > 0;
    options.seed = static_cast<uint64_t>(random.between(0, 1000));
    if (random.between(0, 1)) options.changes = {{random.between(0, 9), random.between(1, 6), 1}};
    const Indices data(options.dataset_size);
    const EpochSampler sampler(options);
    const int64_t epoch = sampler.schedule().end_of(Epoch(1)).value;
    const int64_t total = sampler.schedule().end_of(Epoch(2)).value;

    Record whole, elastic;
    run_stage(data, sampler, {{VirtualRank(0), VirtualRank(options.ests)}}, 0, total, random, whole);
    for (int64_t step = 0; step < total;) {
      const int64_t steps = random.between(1, total - step);
      run_stage(data, sampler, random_split(random, options.ests), step, steps, random, elastic);
      step += steps;
    }
    CHECK(elastic == whole);

    std::map<int64_t, int64_t> counts;
    for (const auto& [key, consumed] : elastic) {
      if (key.first >= epoch) break;
      for (int64_t index : consumed.samples) ++counts[index];
    }
    CHECK(counts == expected_counts(options));
    CHECK(static_cast<int64_t>(counts.size()) == options.dataset_size);
  }
}

}  // namespace estrain::data
