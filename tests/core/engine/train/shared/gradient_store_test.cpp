#include "core/engine/train/shared/gradient_store.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <memory>
#include <optional>
#include <random>

#include "core/engine/train/job/job.h"
#include "core/job/spec/parsing/parse.h"
#include "tests/core/engine/train/linear_training.h"

namespace estrain::train {
namespace {

using Values = std::vector<float>;
using Maybe = std::optional<Values>;  // nothing: no EST in the subtree reached the parameter

bool same_bits(const Maybe& a, const Maybe& b) {
  if (a.has_value() != b.has_value()) return false;
  return !a || std::ranges::equal(*a, *b, {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>);
}

std::string spec_text(int64_t ests, const char* determinism) {
  return fmt::format(
      "[job]\nests = {}\ndeterminism = \"{}\"\n[model]\nname = \"mlp\"\nhidden = [5]\n"
      "[data]\nformat = \"synthetic\"\nshape = [7]\nsamples = 64\nbatch = 2\n[train]\nsteps = 1\n",
      ests, determinism);
}

// A job of a small mlp with its shared memory, as in its workers, and the gradients of all its ESTs for one step.
class Rehearsal {
 public:
  Rehearsal(int64_t ests, unsigned seed, const char* determinism = "D1")
      : spec_(spec::parse_text(spec_text(ests, determinism), "test")),
        data_(data::open(spec_.data, spec_.model.context, 0, spec_.model.classes)),
        job_(spec_, data_, true),
        random_(seed) {
    memory_.lay_out(job_.memory_plan());
    for (int64_t est = 0; est < ests; ++est) {
      gradients_.emplace_back();
      for (size_t i = 0; i < parameters(); ++i)
        gradients_.back().push_back(draw_gradient(job_.places().model.elements(i)));
    }
    // one parameter that no EST reaches, another that only the last one does
    for (auto& of_est : gradients_) of_est[1].reset();
    for (int64_t est = 0; est + 1 < ests; ++est) gradients_[static_cast<size_t>(est)][3].reset();
  }

  size_t parameters() const { return job_.places().model.num_parameters(); }
  int64_t ests() const { return spec_.job.ests; }

  // The sum by its definition.
  Maybe expected(size_t parameter) const { return tree(parameter, 0, ests()); }

  // Every worker folds its ESTs; then each must get the same sums.
  std::vector<Maybe> sums(const std::vector<EstRange>& ranges) {
    std::vector<std::unique_ptr<GradientStore>> workers;
    for (size_t w = 0; w < ranges.size(); ++w) {
      workers.push_back(std::make_unique<GradientStore>(store_of(static_cast<int64_t>(w), ranges)));
      CHECK(workers.back()->slots() <= ests());
      for (int64_t rank = ranges[w].begin.value; rank < ranges[w].end.value; ++rank)
        fold(*workers.back(), static_cast<size_t>(rank - ranges[w].begin.value), static_cast<size_t>(rank));
    }
    const std::vector<Maybe> first = read(*workers.front());
    for (const auto& worker : workers) CHECK(std::ranges::equal(read(*worker), first, same_bits));
    return first;
  }

  // One worker that folds all but its last EST, whose gradients it receives when it sums.
  std::vector<Maybe> sums_with_last() {
    GradientStore store = store_of(0, {{VirtualRank(0), VirtualRank(ests())}});
    const size_t last = static_cast<size_t>(ests()) - 1;
    for (size_t est = 0; est < last; ++est) fold(store, est, est);
    return read_with(
        [&](size_t i, size_t begin, size_t n, float* scratch) {
          const Maybe& gradient = gradients_[last][i];
          return store.sum_with_last(i, gradient ? gradient->data() : nullptr, begin, n, scratch);
        },
        store);
  }

  // Sums written over the first source, a piece at a time, as for clipping.
  std::vector<Maybe> sums_in_place(const std::vector<EstRange>& ranges) {
    sums(ranges);
    GradientStore store = store_of(0, ranges);
    std::vector<Maybe> all;
    for (size_t i = 0; i < parameters(); ++i) {
      const size_t elements = job_.places().model.elements(i);
      float* target = store.sum_target(i);
      store.begin_whole_sum(i);
      Values scratch(store.scratch_floats(3));
      bool reached = false;
      for (size_t begin = 0; begin < elements; begin += 3) {
        const size_t n = std::min<size_t>(3, elements - begin);
        const float* sum = store.sum(i, begin, n, scratch.data());
        reached = sum != nullptr;
        if (reached && sum != target + begin) std::copy_n(sum, n, target + begin);
      }
      all.push_back(reached ? Maybe(Values(target, target + elements)) : Maybe());
    }
    return all;
  }

 private:
  GradientStore store_of(int64_t worker, const std::vector<EstRange>& ranges) {
    const StageOrder order{WorkerRank(worker), ranges, std::nullopt, false};
    marks_.emplace_back(job_.places().model, memory_, order);
    return {job_.places().model, job_.gradient_sum(), memory_, order, marks_.back()};
  }

  Maybe draw_gradient(size_t elements) {
    if (random_() % 5 == 0) return {};
    Values values(elements);
    for (float& value : values) value = random_() % 6 == 0 ? -0.0f : std::normal_distribution<float>()(random_);
    return values;
  }

  Maybe tree(size_t parameter, int64_t lo, int64_t hi) const {
    if (hi - lo == 1) {
      Maybe gradient = gradients_[static_cast<size_t>(lo)][parameter];
      if (gradient) {
        for (float& value : *gradient) value = value * (1.0f / static_cast<float>(ests()));
      }
      return gradient;
    }
    int64_t m = 1;
    while (2 * m < hi - lo) m *= 2;
    const Maybe left = tree(parameter, lo, lo + m), right = tree(parameter, lo + m, hi);
    if (!left && !right) return {};
    Values sum(job_.places().model.elements(parameter));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = (left ? (*left)[i] : 0.0f) + (right ? (*right)[i] : 0.0f);
    return sum;
  }

  void fold(GradientStore& store, size_t arrival, size_t est) {
    for (size_t i = parameters(); i-- > 0;) {
      const Maybe& gradient = gradients_[est][i];
      store.fold(arrival, i, gradient ? gradient->data() : nullptr);
    }
  }

  template <typename Sum>
  std::vector<Maybe> read_with(Sum&& sum_of, const GradientStore& store) {
    std::vector<Maybe> all;
    for (size_t i = 0; i < parameters(); ++i) {
      Values whole;
      for (size_t begin = 0; begin < job_.places().model.elements(i); begin += 4) {
        const size_t n = std::min<size_t>(4, job_.places().model.elements(i) - begin);
        Values scratch(std::max(store.scratch_floats(n), n));
        if (const float* sum = sum_of(i, begin, n, scratch.data())) whole.insert(whole.end(), sum, sum + n);
      }
      all.push_back(whole.empty() ? Maybe() : Maybe(whole));
    }
    return all;
  }
  std::vector<Maybe> read(const GradientStore& store) {
    return read_with([&](size_t i, size_t begin, size_t n, float* scratch) { return store.sum(i, begin, n, scratch); },
                     store);
  }

  spec::JobSpec spec_;
  data::DataPair data_;
  TrainingJob job_;
  UniqueFd memory_fd_ = comm::JobMemory::create();
  comm::JobMemory memory_{memory_fd_.get()};
  std::deque<RowMarks> marks_;  // of store_of()
  std::mt19937 random_;
  std::vector<std::vector<Maybe>> gradients_;  // [EST][parameter]
};

void check_sums(const Rehearsal& rehearsal, const std::vector<Maybe>& sums) {
  REQUIRE(sums.size() == rehearsal.parameters());
  for (size_t i = 0; i < sums.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(sums[i], rehearsal.expected(i)));
  }
}

std::vector<EstRange> random_split(int64_t ests, std::mt19937& random) {
  std::vector<EstRange> ranges;
  const unsigned cut_in = 1 + random() % 4;
  int64_t begin = 0;
  for (int64_t rank = 1; rank <= ests; ++rank) {
    if (rank != ests && random() % cut_in != 0) continue;
    ranges.push_back({VirtualRank(begin), VirtualRank(rank)});
    begin = rank;
  }
  return ranges;
}

TEST_CASE("the sum over any split of the ESTs is the tree's, bit for bit, absent gradients included") {
  std::mt19937 random(5);
  for (const int64_t ests : {1, 2, 3, 5, 8, 13}) {
    Rehearsal rehearsal(ests, static_cast<unsigned>(ests));
    REQUIRE(rehearsal.parameters() == 4);
    CHECK_FALSE(rehearsal.expected(1).has_value());
    for (int round = 0; round < 12; ++round) {
      const std::vector<EstRange> ranges = random_split(ests, random);
      CAPTURE(ests);
      CAPTURE(ranges.size());
      check_sums(rehearsal, rehearsal.sums(ranges));
      check_sums(rehearsal, rehearsal.sums_in_place(ranges));
    }
    check_sums(rehearsal, rehearsal.sums_with_last());
  }
}

TEST_CASE("D0 sums left to right, so that its bits depend on the split") {
  Rehearsal rehearsal(8, 1, "D0");
  const EstRange left{VirtualRank(0), VirtualRank(4)}, right{VirtualRank(4), VirtualRank(8)};
  const std::vector<Maybe> alone = rehearsal.sums({{VirtualRank(0), VirtualRank(8)}});
  const std::vector<Maybe> together = rehearsal.sums({left, right});
  CHECK(std::ranges::equal(alone, rehearsal.sums_with_last(), same_bits));
  CHECK_FALSE(std::ranges::equal(alone, together, same_bits));
}

constexpr const char* kSgd = "name = \"sgd\"\nlr = 0.1\n";
constexpr const char* kAdaptive = "[elastic]\nbatch = \"adaptive\"\n";

double squared_slopes(const TrainingJob& job) {
  double sum = 0;
  for (const torch::Tensor& parameter : job.network().parameters())
    sum += slope_of(parameter).to(torch::kDouble).square().sum().item<double>();
  return sum;
}

TEST_CASE("squared norms of all ESTs' gradients, and of their mean, whichever way the update goes") {
  for (const Way& way : kWays) {
    CAPTURE(std::string(way.name));
    LinearTraining training(kSgd, way, kAdaptive);
    for (int i = 0; i < 3; ++i) training.step(all);
    double of_ests = 0, of_mean = 0;
    for (size_t w = 0; w < way.ranges.size(); ++w) {
      CHECK(training.pulse(w).measured_steps.load() == 3);
      of_ests += training.pulse(w).est_squares.load();
      of_mean += training.pulse(w).mean_squares.load();
    }
    const double slopes = squared_slopes(training.job());
    CHECK(of_ests == doctest::Approx(3 * (1 + 4 + 9) * slopes));
    CHECK(of_mean == doctest::Approx(3 * 4 * slopes));  // the mean of 1, 2 and 3 is 2
  }
}

TEST_CASE("nothing is measured unless the job's batch may be changed") {
  LinearTraining training(kSgd, kWays[0]);
  training.step(all);
  CHECK(training.pulse(0).measured_steps.load() == 0);
  CHECK(training.pulse(0).est_squares.load() == 0);
}

}  // namespace

}  // namespace estrain::train
