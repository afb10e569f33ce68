#include "core/job/spec/keys/closest.h"

#include <doctest/doctest.h>

namespace estrain::spec {
namespace {

TEST_CASE("edit distance") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("", "ab") == 2);
  CHECK(edit_distance("batch", "btach") == 1);  // neighbours swapped
  CHECK(edit_distance("batch", "BATCH") == 0);
  CHECK(edit_distance("batch", "bach") == 1);
  CHECK(edit_distance("batch", "bratch") == 1);
  CHECK(edit_distance("batch", "match") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the closest word, if it is close") {
  const std::vector<std::string> words = {"mean", "momentum", "lr"};
  CHECK(closest("momentmu", words) == "momentum");
  CHECK(closest("l", words) == "lr");
  CHECK(closest("maen", words) == "mean");
  CHECK_FALSE(closest("epochs", words));
  CHECK_FALSE(closest("xy", words));
  CHECK_FALSE(closest("x", {}));
}

}  // namespace
}  // namespace estrain::spec
