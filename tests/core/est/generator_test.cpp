#include "core/est/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <doctest/doctest.h>
#include <torch/types.h>

#include <cstring>
#include <vector>

namespace estrain::est {
namespace {

// A saved state, at a 64-byte boundary as in the shared state.
struct SavedState {
  std::byte* bytes = static_cast<std::byte*>(std::aligned_alloc(64, (generator_state_bytes() + 63) / 64 * 64));
  explicit SavedState(uint64_t seed) { seeded_generator_state(seed, bytes); }
  SavedState(const SavedState&) = delete;
  ~SavedState() { std::free(bytes); }
};

// What a mini-batch draws: numbers of several kinds. Odd sizes of randn leave half a pair behind in the generator.
std::vector<float> draw_mini_batch() {
  std::vector<float> drawn;
  const torch::Tensor parts[] = {torch::rand({5}), torch::randn({3}), torch::randn({17}),
                                 torch::bernoulli(torch::full({9}, 0.5)), torch::randn({}).reshape({1})};
  for (const torch::Tensor& part : parts)
    drawn.insert(drawn.end(), part.const_data_ptr<float>(), part.const_data_ptr<float>() + part.numel());
  return drawn;
}

std::vector<std::vector<float>> draw_alone(uint64_t seed, int mini_batches) {
  torch::manual_seed(seed);
  std::vector<std::vector<float>> drawn;
  for (int i = 0; i < mini_batches; ++i) drawn.push_back(draw_mini_batch());
  return drawn;
}

TEST_CASE("ESTs that take turns draw what each would draw alone") {
  constexpr int kEsts = 4, kMiniBatches = 5;
  std::vector<std::unique_ptr<SavedState>> states;
  std::vector<std::vector<std::vector<float>>> drawn(kEsts);
  for (uint64_t est = 0; est < kEsts; ++est) states.push_back(std::make_unique<SavedState>(100 + est));
  for (int i = 0; i < kMiniBatches; ++i) {
    for (size_t est = 0; est < kEsts; ++est) {
      switch_generator_in(states[est]->bytes);
      drawn[est].push_back(draw_mini_batch());
      switch_generator_out(states[est]->bytes);
      torch::rand({3});  // evaluation, or whatever else happens between turns
    }
  }
  for (size_t est = 0; est < kEsts; ++est) {
    const auto alone = draw_alone(100 + est, kMiniBatches);
    CAPTURE(est);
    CHECK(drawn[est] == alone);
  }
  CHECK(drawn[0] != drawn[1]);
}

TEST_CASE("a saved state goes on where it was, as often as it is switched in") {
  SavedState state(7);
  switch_generator_in(state.bytes);
  torch::randn({3});
  switch_generator_out(state.bytes);
  switch_generator_in(state.bytes);
  const auto first = draw_mini_batch();
  switch_generator_in(state.bytes);
  CHECK(draw_mini_batch() == first);
}

TEST_CASE("seeding writes one place and leaves the default generator alone") {
  torch::manual_seed(3);
  const auto expected = draw_mini_batch();
  torch::manual_seed(3);
  const SavedState state(8);
  CHECK(draw_mini_batch() == expected);
}

TEST_CASE("equal seeds give equal bytes, other seeds others") {
  const SavedState a(5), b(5), c(6);
  CHECK(std::memcmp(a.bytes, b.bytes, generator_state_bytes()) == 0);
  CHECK(std::memcmp(a.bytes, c.bytes, generator_state_bytes()) != 0);
}

}  // namespace
}  // namespace estrain::est
