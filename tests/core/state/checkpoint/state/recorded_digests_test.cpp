#include "core/state/checkpoint/state/recorded_digests.h"

#include <doctest/doctest.h>

#include "core/state/checkpoint/state/est_streams.h"

namespace estrain::checkpoint {
namespace {

TEST_CASE("an EST's streams have one digest in a step's record: without a CUDA stream, the CPU stream's own") {
  StateLayout layout;
  layout.append(Role::est, "0", "generator", DType::u8, {8});
  layout.append(Role::est, "0", "loss", DType::f32, {});
  layout.append(Role::est, "1", "generator", DType::u8, {8});
  layout.append(Role::est, "1", "cuda_generator", DType::u8, {16});
  layout.append(Role::est, "1", "python", DType::u8, {16});
  const auto found = recorded_digests(layout, {100, 7, 200, 30, 5});
  CHECK(found.at("est/0/generator") == 100);
  CHECK(found.at("est/1/generator") == streams_digest(200, 30, 5));
  CHECK(found.at("est/1/generator") != 200);
  CHECK(found.size() == 2);
}

}  // namespace
}  // namespace estrain::checkpoint
