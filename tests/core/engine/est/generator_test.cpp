#include "core/engine/est/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <doctest/doctest.h>
#include <torch/types.h>

#include <array>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace estrain::est {
namespace {

// A saved state, at a 64-byte boundary as in the shared state.
struct SavedState {
  std::byte* bytes = static_cast<std::byte*>(std::aligned_alloc(64, (generator_state_bytes() + 63) / 64 * 64));
  explicit SavedState(uint64_t seed) { seeded_generator_state(seed, bytes); }
  SavedState(const SavedState&) = delete;
  ~SavedState() { std::free(bytes); }
};

// Draws of a mini-batch: numbers of several kinds. Odd sizes of randn leave half a pair in the generator.
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
      torch::rand({3});  // evaluation, or any other draw between turns
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

// The format of torch.cuda.get_rng_state(): the seed, then the offset in the stream.
TEST_CASE("the state of a CUDA generator is seed and offset, whatever machine writes it") {
  std::array<uint8_t, cuda_generator_state_bytes> state;
  state.fill(0xFF);
  seeded_cuda_generator_state(0x0123456789ABCDEF, reinterpret_cast<std::byte*>(state.data()));
  CHECK(state == std::array<uint8_t, 16>{0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01});
}

// Replaces a CUDA generator, whose state has the same format.
class Counter : public c10::GeneratorImpl {
 public:
  Counter() : GeneratorImpl(c10::Device(c10::kCUDA, 0), c10::DispatchKeySet(c10::DispatchKey::CUDA)) {}
  void set_current_seed(uint64_t seed) override { words[0] = seed; }
  void set_offset(uint64_t offset) override { words[1] = offset; }
  uint64_t get_offset() const override { return words[1]; }
  uint64_t current_seed() const override { return words[0]; }
  uint64_t seed() override { return words[0]; }
  void set_state(const c10::TensorImpl& state) override {
    REQUIRE(state.numel() == 16);
    std::memcpy(words, state.data(), sizeof words);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state = at::empty({16}, at::kByte);
    std::memcpy(state.mutable_data_ptr(), words, sizeof words);
    return state.getIntrusivePtr();
  }
  uint64_t words[2] = {};

 private:
  GeneratorImpl* clone_impl() const override { return new Counter; }
};

TEST_CASE("the streams of two ESTs on a GPU take turns: each goes on where it stood") {
  alignas(64) std::byte states[2][cuda_generator_state_bytes];
  for (uint64_t est : {0, 1}) seeded_cuda_generator_state(50 + est, states[est]);
  const auto generator = at::make_generator<Counter>();
  auto* counter = generator.get<Counter>();
  for (uint64_t turn = 0; turn < 3; ++turn) {
    for (uint64_t est : {0, 1}) {
      switch_cuda_generator_in(generator, states[est]);
      CHECK(counter->words[0] == 50 + est);
      CHECK(counter->words[1] == turn * (4 + est));
      counter->words[1] += 4 + est;
      switch_cuda_generator_out(generator, states[est]);
    }
  }
}

TEST_CASE("a generator whose state has another form is not taken for a CUDA generator") {
  alignas(64) std::byte state[cuda_generator_state_bytes];
  const Error error = error_of([&] { switch_cuda_generator_out(at::detail::createCPUGenerator(1), state); });
  CHECK(error.fault() == Fault::bug);
  CHECK(error.message().find("has 5056 bytes, not 16") != std::string::npos);
}

}  // namespace
}  // namespace estrain::est
