#include "core/conduct/device.h"

#include <doctest/doctest.h>

namespace estrain::conduct {
namespace {

using Kinds = std::vector<std::string>;

TEST_CASE("lists of kinds are compared as often as a kind stands in them") {
  const Kinds all = {"cpu", "cpu:avx2", "cpu"};
  CHECK(without(all, {"cpu"}) == Kinds{"cpu:avx2", "cpu"});
  CHECK(without(all, {"cpu", "cpu"}) == Kinds{"cpu:avx2"});
  CHECK_FALSE(without(all, {"cpu", "cpu", "cpu"}).has_value());
  CHECK(common(all, {"cpu", "cpu:sse"}) == Kinds{"cpu"});
  CHECK(beyond(all, {"cpu"}) == Kinds{"cpu:avx2", "cpu"});
  CHECK(beyond({"cpu"}, all).empty());
}

TEST_CASE("a list of kinds in words") {
  CHECK(list_of({}) == "none");
  CHECK(list_of({"cpu", "cpu:avx2"}) == "cpu,cpu:avx2");
}

}  // namespace
}  // namespace estrain::conduct
