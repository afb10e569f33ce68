#include "core/engine/train/shared/row_sums.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <random>

#include "core/engine/est/fold.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::train {
namespace {

constexpr int64_t kHeight = 23, kWidth = 5;
constexpr size_t kElements = kHeight * kWidth;
constexpr float kFactor = 1.0f / 3;

using Values = std::vector<float>;

bool are_same(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>);
}

// Of a mini-batch with repeated rows. Some scaled sums are -0.
GradientFactors lookups(std::mt19937& random, int64_t count) {
  GradientFactors factors;
  factors.form = comm::FactorForm::embedding;
  factors.left = torch::empty({count, kWidth});
  for (int64_t i = 0; i < factors.left.numel(); ++i)
    factors.left.data_ptr<float>()[i] = random() % 4 == 0 ? -1e-45f : std::normal_distribution<float>()(random);
  factors.right = torch::empty({count}, torch::kLong);
  for (int64_t i = 0; i < count; ++i) factors.right.data_ptr<int64_t>()[i] = static_cast<int64_t>(random() % kHeight);
  if (random() % 2 == 0) factors.padding = factors.right.data_ptr<int64_t>()[0];
  return factors;
}

comm::FoldPlan plan_of(int64_t ests) {
  return comm::plan_fold(comm::SumOrder::tree, ests, {VirtualRank(0), VirtualRank(ests)});
}

// Folds whole gradients.
class WholeSums {
 public:
  explicit WholeSums(const comm::FoldPlan& plan)
      : plan_(plan), sums_(static_cast<size_t>(plan.buffers), Values(kElements, 7.0f)) {}

  // Returns the partial sum that the gradient completes.
  const Values& fold(size_t arrival, const GradientFactors& factors) {
    const auto [depth, merges] = plan_.arrivals[arrival];
    const auto target = static_cast<size_t>(depth - merges);
    std::vector<est::Partial> left;
    for (size_t i = 0; i < static_cast<size_t>(merges); ++i) left.push_back({sums_[target + i].data(), true});
    const torch::Tensor gradient = gradient_of(factors, {kHeight, kWidth});
    est::fold(left, gradient.const_data_ptr<float>(), kFactor, sums_[target].data(), kElements);
    return sums_[target];
  }

 private:
  const comm::FoldPlan plan_;
  std::vector<Values> sums_;
};

Values whole(RowsView sum) {
  Values values(kElements, 7.0f);
  RowsPlace(values.data(), kElements, kWidth).write_whole(sum);
  return values;
}

TEST_CASE("sums by rows have the bits of whole sums") {
  std::mt19937 random(3);
  for (const int64_t ests : {1, 2, 3, 6, 8, 13}) {
    CAPTURE(ests);
    const comm::FoldPlan plan = plan_of(ests);
    WholeSums expected(plan);
    std::vector<RowValues> sums(static_cast<size_t>(plan.buffers));
    RowValues own, folded;
    for (int step = 0; step < 6; ++step) {
      for (size_t arrival = 0; arrival < plan.arrivals.size(); ++arrival) {
        const auto [depth, merges] = plan.arrivals[arrival];
        const auto target = static_cast<size_t>(depth - merges);
        const GradientFactors factors = lookups(random, 1 + static_cast<int64_t>(random() % 6));
        std::vector<RowsView> left;
        for (size_t i = 0; i < static_cast<size_t>(merges); ++i) left.push_back(sums[target + i].view());
        rows_of_gradient(factors, kWidth, own);
        fold_rows(left, own.view(), kFactor, kWidth, folded);
        std::swap(sums[target], folded);
        CHECK(std::ranges::adjacent_find(sums[target].rows, std::greater_equal()) == sums[target].rows.end());
        REQUIRE(are_same(whole(sums[target].view()), expected.fold(arrival, factors)));
      }
    }
  }
}

TEST_CASE("the sum over all ESTs from their factors has the bits of whole gradients, step by step") {
  std::mt19937 random(5);
  for (const int64_t ests : {1, 2, 3, 6, 8, 13}) {
    CAPTURE(ests);
    const comm::FoldPlan plan = plan_of(ests);
    FactoredRows rows(plan, kFactor);
    WholeSums expected(plan);
    for (int step = 0; step < 4; ++step) {
      std::vector<GradientFactors> of_ests;
      Values sum;
      for (size_t est = 0; est < static_cast<size_t>(ests); ++est) {
        of_ests.push_back(lookups(random, 1 + static_cast<int64_t>(random() % 4)));
        sum = expected.fold(est, of_ests.back());
      }
      REQUIRE(are_same(whole(rows.sum(of_ests, kWidth)), sum));
    }
  }
}

TEST_CASE("a place gives any part of the sum that it holds by rows, and becomes the whole sum") {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    RowValues sum;
    for (RowNumber row = 0; row < kHeight; ++row) {
      if (random() % 3 == 0) sum.rows.push_back(row);
    }
    sum.make_room(sum.rows.size() * kWidth);
    std::generate_n(sum.values(), sum.rows.size() * kWidth, [&] { return std::normal_distribution<float>()(random); });
    Values memory(kElements + 1, 7.0f);
    RowsPlace place(memory.data(), kElements, kWidth);
    if (!place.fits(sum.rows.size())) continue;
    place.write(sum.view());
    CHECK(memory.back() == 7.0f);
    const Values expected = whole(sum.view());
    for (int part = 0; part < 40; ++part) {
      const size_t begin = random() % kElements, n = 1 + random() % (kElements - begin);
      Values scratch(n, 7.0f);
      const float* const read = place.read(begin, n, scratch.data());
      REQUIRE(are_same({read, n}, std::span(expected).subspan(begin, n)));
    }
    place.widen();
    CHECK(are_same(std::span(memory).first(kElements), expected));
    CHECK(memory.back() == 7.0f);
  }
}

TEST_CASE("a place takes no sum of more than half of the rows, or larger than itself") {
  Values memory(1000);
  CHECK(RowsPlace(memory.data(), 1000, 10).fits(50));
  CHECK_FALSE(RowsPlace(memory.data(), 1000, 10).fits(51));
  CHECK_FALSE(RowsPlace(memory.data(), 16, 1).fits(1));  // the values begin at a multiple of 64 bytes
  CHECK(RowsPlace(memory.data(), 1000, 1).fits(490));
  CHECK_FALSE(RowsPlace(memory.data(), 1000, 1).fits(500));
}

TEST_CASE("a table whose gradients depend on the rows' frequency is not summed by rows") {
  std::mt19937 random(6);
  GradientFactors factors = lookups(random, 3);
  CHECK(takes_rows(factors, kHeight));
  CHECK_FALSE(takes_rows(factors, int64_t{1} << 32));
  factors.scales_by_frequency = true;
  CHECK_FALSE(takes_rows(factors, kHeight));
  CHECK_FALSE(takes_rows({}, kHeight));
}

}  // namespace
}  // namespace estrain::train
