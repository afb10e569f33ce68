#pragma once
// A small job's state: tied weights, scalars, an empty tensor, odd sizes; every byte is known.

#include <random>
#include <vector>

#include "core/state/checkpoint/state/checkpoint_meta.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

struct State {
  StateLayout layout;
  std::vector<uint64_t> words;  // aligned storage of one copy

  explicit State(StateLayout of) : layout(std::move(of)), words((layout.bytes + 7) / 8, 0) {}
  std::byte* bytes() { return reinterpret_cast<std::byte*>(words.data()); }
  const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(words.data()); }
};

inline StateLayout small_layout(int64_t width = 6, int64_t ests = 2) {
  StateLayout layout;
  layout.append(Role::parameter, "embed.weight", "", DType::f32, {5, width});
  layout.append(Role::parameter, "layer1.0.bias", "", DType::f32, {width});
  layout.append(Role::parameter, "scale", "", DType::f64, {});
  layout.append(Role::buffer, "bn.running_mean", "", DType::f32, {width});
  layout.append(Role::buffer, "bn.num_batches_tracked", "", DType::i64, {});
  layout.append(Role::buffer, "nothing", "", DType::f32, {0, 3});
  layout.append(Role::optimizer, "embed.weight", "momentum_buffer", DType::f32, {5, width});
  layout.append(Role::optimizer, "embed.weight", "step", DType::i64, {});
  for (int64_t rank = 0; rank < ests; ++rank) {
    layout.append(Role::est, std::to_string(rank), "generator", DType::u8, {37});
    layout.append(Role::est, std::to_string(rank), "loss", DType::f32, {});
  }
  layout.aliases.push_back({Role::parameter, "head.weight", "embed.weight"});
  return layout;
}

// Elements are random; gaps between tensors stay zero, as after reading a file.
inline State filled(StateLayout layout, uint64_t seed = 1) {
  State state(std::move(layout));
  std::mt19937_64 random(seed);
  for (const StateTensor& tensor : state.layout.tensors)
    for (uint64_t i = 0; i < tensor.bytes(); ++i) state.bytes()[tensor.offset + i] = static_cast<std::byte>(random());
  return state;
}

inline CheckpointMeta sample_meta(int64_t step = 100) {
  return {.estrain_version = "0.1.0",
          .step = Step(step),
          .epoch = Epoch(3),
          .samples = 320,
          .ests = 2,
          .lr = 0.1,
          .spec = "[job]\nname = \"sample\"\n",
          .changes = "{\"step\":50,\"lr\":0.1}\n",
          .stages = "[{\"step\":0,\"devices\":[\"cpu\"]}]",
          .devices = "cpu,cpu:avx2",
          .cpu = "AuthenticAMD EPYC avx512"};
}

}  // namespace estrain::checkpoint
