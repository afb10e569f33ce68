#include "core/state/algorithms/key.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace estrain::algorithms {
namespace {

TEST_CASE("a key is the operation and its fields, sorted, in whatever order they were set") {
  Key key("convolution_forward");
  key.set("stride", "2x2").set("element", "f32").set("input", "8x3x224x224").set("groups", "1");
  CHECK(key.text() == "convolution_forward element=f32 groups=1 input=8x3x224x224 stride=2x2");
  Key other("convolution_forward");
  other.set("groups", "1").set("input", "8x3x224x224").set("element", "f32").set("stride", "2x2");
  CHECK(other.text() == key.text());
  CHECK(Key("product").set("offset", "-1").text() == "product offset=-1");
}

TEST_CASE("a key holds nothing that would leave open where a field ends") {
  CHECK(error_of([] { Key("a b"); }).fault() == Fault::bug);
  CHECK(error_of([] { Key("a").set("x=y", "1"); }).fault() == Fault::bug);
  CHECK(error_of([] { Key("a").set("x", "1 y=2"); }).fault() == Fault::bug);
  CHECK(error_of([] { Key("a").set("x", ""); }).fault() == Fault::bug);
}

}  // namespace
}  // namespace estrain::algorithms
