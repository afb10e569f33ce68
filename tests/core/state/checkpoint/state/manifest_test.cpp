#include "core/state/checkpoint/state/manifest.h"

#include <doctest/doctest.h>

#include "tests/core/state/checkpoint/sample_state.h"
#include "tests/error_of.h"

namespace estrain::checkpoint {
namespace {

TEST_CASE("JSON carries all of a manifest") {
  Manifest manifest;
  manifest.layout = small_layout();
  manifest.digest_names = {"a", "b"};
  manifest.metric_names = {"top5"};
  manifest.batches = {.samples_per_est = 20, .batch = 4, .drop_last = true, .changes = {{2, 3, 0.1}}};
  manifest.ests = 3;
  manifest.total_steps = 5;
  manifest.parameter_count = 6;
  manifest.processor = "AVX512";
  manifest.data = "{}";
  const Manifest copy = Manifest::from_json(manifest.to_json());
  CHECK(copy.to_json() == manifest.to_json());
  CHECK(copy.digest_names == manifest.digest_names);
  CHECK(copy.metric_names == manifest.metric_names);
  CHECK(copy.batches == manifest.batches);
  CHECK(copy.ests == 3);
  CHECK(copy.total_steps == 5);
  CHECK(copy.processor == "AVX512");
  const StateLayout &from = manifest.layout, &to = copy.layout;
  REQUIRE(to.tensors.size() == from.tensors.size());
  for (size_t i = 0; i < to.tensors.size(); ++i) {
    CHECK(to.tensors[i].path() == from.tensors[i].path());
    CHECK(to.tensors[i].dtype == from.tensors[i].dtype);
    CHECK(to.tensors[i].shape == from.tensors[i].shape);
    CHECK(to.tensors[i].offset == from.tensors[i].offset);
  }
  CHECK(to.bytes == from.bytes);
  CHECK(to.aliases[0].target == "embed.weight");
}

TEST_CASE("JSON that is no manifest is corrupt") {
  for (const char* text : {"", "{", "[]", R"({"layout":[]})", R"({"layout":{"tensors":[{"role":"hat"}]}})",
                           R"({"layout":{"tensors":[{"dtype":1}]}})", R"({"batches":{"batch":"4"}})"}) {
    CAPTURE(text);
    CHECK(error_of([&] { (void)Manifest::from_json(text); }).fault() == Fault::corrupt);
  }
}

}  // namespace
}  // namespace estrain::checkpoint
