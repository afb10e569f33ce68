#include "core/engine/train/shared/gradient_factors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>

#include "core/base/error.h"
#include "core/engine/device/cpu.h"
#include "core/engine/operators/portable.h"
#include "tests/core/state/comm/complete_memory.h"

namespace estrain::train {
namespace {

using comm::FactorForm;
using torch::Tensor;

Tensor waves(at::IntArrayRef sizes, double shift) {
  const Tensor numbers = torch::arange(c10::multiply_integers(sizes), torch::kFloat);
  return (numbers * 0.7 + shift).sin().view(sizes);
}

Tensor parameter(at::IntArrayRef sizes, double shift) { return waves(sizes, shift).requires_grad_(); }

bool are_equal_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

using Forms = std::map<size_t, int>;

constexpr int kLinear = static_cast<int>(FactorForm::linear), kEmbedding = static_cast<int>(FactorForm::embedding),
              kTransposed = static_cast<int>(FactorForm::transposed_weight),
              kWeight = static_cast<int>(FactorForm::weight);

// The forms of the gradients that a backward pass shows; each gradient has the bits of the pass.
Forms forms_in(const Tensor& loss, const std::vector<Tensor>& parameters) {
  Forms forms;
  std::map<size_t, Tensor> gradients;
  const FactorWatch watch(parameters);
  const size_t found = watch.watch(loss, [&](size_t i, const GradientFactors& factors) {
    CHECK(are_storable(factors, parameters[i].sizes()));
    forms[i] = static_cast<int>(factors.form);
    const Tensor& right = factors.right;
    CHECK((factors.form != FactorForm::embedding || (right.is_contiguous() && right.scalar_type() == torch::kLong)));
    gradients[i] = gradient_of(factors, parameters[i].sizes());
  });
  loss.backward();
  CHECK(found == forms.size());
  for (const auto& [i, gradient] : gradients) CHECK(are_equal_bits(gradient, parameters[i].grad()));
  return forms;
}

TEST_CASE("factors of a linear layer give the gradient of the backward pass") {
  const Tensor weight = parameter({7, 5}, 1), bias = parameter({7}, 2), other = parameter({7, 7}, 5);
  SUBCASE("with a bias") {
    CHECK((forms_in((at::linear(waves({6, 5}, 3), weight, bias) * waves({6, 7}, 4)).sum(), {weight, bias}) ==
           Forms{{0, kTransposed}}));
  }
  SUBCASE("without a bias, of sequences") {
    CHECK((forms_in((at::linear(waves({2, 3, 5}, 3), weight) * waves({2, 3, 7}, 4)).sum(), {weight}) ==
           Forms{{0, kTransposed}}));
  }
  SUBCASE("two layers, the second without its input's gradient from outside") {
    const Tensor hidden = at::linear(waves({6, 5}, 3), weight, bias).relu();
    CHECK((forms_in((at::linear(hidden, other) * waves({6, 7}, 4)).sum(), {weight, other}) ==
           Forms{{0, kTransposed}, {1, kTransposed}}));
  }
  SUBCASE("of a single row with gaps") {
    const Tensor x = waves({1, 10}, 3).slice(1, 0, 10, 2);
    CHECK((forms_in((at::linear(x, weight, bias) * waves({1, 7}, 4)).sum(), {weight}) == Forms{{0, kTransposed}}));
  }
  SUBCASE("of a weight that is not transposed") {
    CHECK((forms_in((at::addmm(bias, waves({6, 7}, 3), other) * waves({6, 7}, 4)).sum(), {other}) ==
           Forms{{0, kWeight}}));
  }
}

TEST_CASE("factors of a portable linear layer and of an embedding give the gradient of the backward pass") {
  const Tensor weight = parameter({7, 5}, 1), table = parameter({9, 5}, 2);
  const Tensor rows = torch::tensor({{3, 0, 3}, {8, 2, 3}}, torch::kLong);
  SUBCASE("LibTorch's embedding") {
    CHECK((forms_in((at::embedding(table, rows) * waves({2, 3, 5}, 4)).sum(), {table}) == Forms{{0, kEmbedding}}));
  }
  SUBCASE("an embedding with a row for padding") {
    CHECK((forms_in((at::embedding(table, rows, /*padding_idx=*/3) * waves({2, 3, 5}, 4)).sum(), {table}) ==
           Forms{{0, kEmbedding}}));
  }
  SUBCASE("an embedding that counts the uses of a row") {
    CHECK((forms_in((at::embedding(table, rows, -1, /*scale_grad_by_freq=*/true) * waves({2, 3, 5}, 4)).sum(),
                    {table}) == Forms{{0, kEmbedding}}));
  }
  SUBCASE("portable") {
    device::CpuDevice cpu;
    const operators::PortableOperators portable(cpu);
    const Tensor hidden = at::linear(at::embedding(table, rows), weight);
    CHECK((forms_in((hidden * waves({2, 3, 7}, 4)).sum(), {weight, table}) == Forms{{0, kLinear}, {1, kEmbedding}}));
  }
}

TEST_CASE("factors of an embedding whose rows have gaps, repeat in place, or are of 32 bits give the same gradient") {
  const Tensor table = parameter({9, 5}, 2), pairs = torch::tensor({{3, 8}, {0, 1}, {3, 7}}, torch::kLong);
  const auto check = [&](const Tensor& rows) {
    std::vector<int64_t> sizes = rows.sizes().vec();
    sizes.push_back(5);
    CHECK((forms_in((at::embedding(table, rows) * waves(sizes, 4)).sum(), {table}) == Forms{{0, kEmbedding}}));
  };
  SUBCASE("a column") { check(pairs.select(1, 0)); }
  SUBCASE("every second row") { check(pairs.slice(0, 0, 3, 2)); }
  SUBCASE("expanded") { check(pairs.select(0, 0).expand({4, 2})); }
  SUBCASE("one row, expanded") { check(torch::tensor({5}, torch::kLong).expand({4})); }
  SUBCASE("transposed") { check(pairs.t()); }
  SUBCASE("of 32 bits") { check(pairs.to(torch::kInt)); }
}

TEST_CASE("a parameter that is used twice, by another operator, or under autocast has no factors") {
  const Tensor weight = parameter({5, 5}, 1), bias = parameter({5}, 2), x = waves({6, 5}, 3);
  CHECK(forms_in(at::linear(at::linear(x, weight), weight).sum(), {weight}).empty());
  CHECK(forms_in(((x.matmul(weight.t()) + bias) * weight.sum()).sum(), {weight, bias}).empty());
  CHECK(forms_in(at::linear(x, weight.to(torch::kBFloat16).to(torch::kFloat)).sum(), {weight}).empty());
  CHECK(forms_in(at::addmm(bias, x, weight, 1, 0.5).sum(), {weight}).empty());
}

// Three ESTs' places for a parameter of 9 x 16 floats.
struct Places {
  comm::CompleteMemory built;
  const std::vector<int64_t> sizes = {9, 16};
  comm::FactorPlaces places{built.memory, 0, 1008};
  const VirtualRank rank{1};

  GradientFactors again() const { return factors_in(places, rank, sizes); }
  comm::FactorHead& head() const { return places.head(rank); }
  int64_t* rows_of_table() const { return reinterpret_cast<int64_t*>(places.at(rank) + 64 + 3 * 16 * sizeof(float)); }
};

GradientFactors embedding_factors() {
  GradientFactors factors;
  factors.form = FactorForm::embedding;
  factors.left = waves({3, 16}, 1);
  factors.right = torch::tensor({8, 0, 8}, torch::kLong);
  factors.padding = 2;
  factors.scales_by_frequency = true;
  return factors;
}

GradientFactors product_factors(FactorForm form, const Tensor& left, const Tensor& right) {
  GradientFactors factors;
  factors.form = form;
  factors.left = left;
  factors.right = right;
  return factors;
}

TEST_CASE("factors come out of an EST's place as they went in, strides included") {
  const Places place;
  CHECK(place.places.capacity() == 336 * sizeof(float));
  std::vector<GradientFactors> all = {embedding_factors()};
  for (const auto form : {FactorForm::linear, FactorForm::transposed_weight})
    all.push_back(product_factors(form, waves({3, 9}, 1), waves({3, 16}, 2)));
  all.push_back(product_factors(FactorForm::weight, waves({3, 16}, 1), waves({3, 9}, 2)));
  all.push_back(product_factors(FactorForm::transposed_weight, waves({9, 3}, 1).t(), waves({16, 3}, 2).t()));
  for (const GradientFactors& factors : all) {
    CAPTURE(static_cast<int>(factors.form));
    REQUIRE(are_storable(factors, place.sizes));
    put_factors(place.places, place.rank, factors);
    const GradientFactors again = place.again();
    CHECK(again.form == factors.form);
    CHECK(again.left.strides() == factors.left.strides());
    CHECK(again.right.strides() == factors.right.strides());
    CHECK(again.padding == factors.padding);
    CHECK(again.scales_by_frequency == factors.scales_by_frequency);
    CHECK(are_equal_bits(gradient_of(again, place.sizes), gradient_of(factors, place.sizes)));
  }
}

TEST_CASE("factors with gaps, of other types or of other sizes are not stored") {
  const std::vector<int64_t> sizes = {9, 16};
  const Tensor left = waves({3, 9}, 1), right = waves({3, 16}, 2);
  const auto stored = [&](const Tensor& l, const Tensor& r, FactorForm form = FactorForm::transposed_weight) {
    return are_storable(product_factors(form, l, r), sizes);
  };
  CHECK(stored(left, right));
  CHECK(!stored(waves({9}, 1).expand({3, 9}), right));
  CHECK(!stored(waves({3, 18}, 1).slice(1, 0, 9), right));
  CHECK(!stored(left, right.to(torch::kDouble)));
  CHECK(!stored(left.to(torch::kBFloat16), right));
  CHECK(!stored(right, left));
  CHECK(stored(right, left, FactorForm::weight));
  CHECK(!stored(waves({3, 16}, 1), torch::tensor({1, 2}, torch::kLong), FactorForm::embedding));
}

TEST_CASE("damaged factors are refused before a number of theirs is used") {
  const Places place;
  const std::vector<std::function<void()>> damages = {
      [&] { place.head().form = FactorForm::none; },
      [&] { place.head().form = static_cast<FactorForm>(9); },
      [&] { place.head().rows = 0; },
      [&] { place.head().rows = -3; },
      [&] { place.head().rows = 1000; },
      [&] { place.head().rows = INT64_MAX / 4; },
      [&] {
        place.head().left_strides = {1, 1};
      },
      [&] {
        place.head().right_strides = {1 << 20, 1};
      },
      [&] { place.rows_of_table()[1] = 9; },
      [&] { place.rows_of_table()[2] = -1; },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    CAPTURE(i);
    put_factors(place.places, place.rank, embedding_factors());
    CHECK_NOTHROW(place.again());
    damages[i]();
    CHECK_THROWS_WITH_AS(place.again(), "the factors of a gradient of virtual rank 1 are damaged", Error);
  }
}

}  // namespace
}  // namespace estrain::train
