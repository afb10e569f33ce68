#include "core/state/checkpoint/state/state_layout.h"

#include <doctest/doctest.h>

#include "tests/core/state/checkpoint/sample_state.h"

namespace estrain::checkpoint {
namespace {

TEST_CASE("what a model computes with starts at multiples of 256 bytes, the rest at multiples of 64, in order") {
  StateLayout layout;
  CHECK(layout.append(Role::parameter, "a", "", DType::f32, {3}) == 0);
  CHECK(layout.append(Role::parameter, "b", "", DType::f64, {2, 20}) == 256);
  CHECK(layout.append(Role::buffer, "c", "", DType::u8, {}) == 768);
  CHECK(layout.append(Role::buffer, "d", "", DType::i64, {1}) == 1024);
  CHECK(layout.append(Role::optimizer, "a", "momentum_buffer", DType::f32, {3}) == 1088);
  CHECK(layout.append(Role::est, "0", "generator", DType::u8, {0}) == 1152);
  CHECK(layout.tensors[2].offset == 768);
  CHECK(layout.bytes == 1152);
  CHECK(layout.tensors[1].elements() == 40);
  CHECK(layout.tensors[1].bytes() == 320);
  CHECK(layout.tensors[2].bytes() == 1);
}

TEST_CASE("paths are those of the file format") {
  const StateLayout layout = small_layout();
  CHECK(layout.tensors[1].path() == "/model/layer1.0.bias");
  CHECK(layout.tensors[3].path() == "/buffers/bn.running_mean");
  CHECK(layout.tensors[6].path() == "/optimizer/embed.weight/momentum_buffer");
  CHECK(layout.tensors[8].path() == "/ests/0/generator");
  CHECK(layout.aliases[0].path() == "/model/head.weight");
  CHECK(layout.aliases[0].target_path() == "/model/embed.weight");
}

}  // namespace
}  // namespace estrain::checkpoint
