#include "core/job/placement/device.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace estrain::placement {
namespace {

Devices list(const std::vector<std::string>& texts) { return devices_from(texts); }

TEST_CASE("a device is written as host/kind:index, and read back") {
  for (const char* text : {"cpu", "cpu:avx512", "cpu:avx2", "cpu:sse", "cuda", "cuda:0", "cuda:12", "nodeB/cpu:avx2",
                           "10.0.0.7/cuda:3", "node-3.rack_1/cuda"}) {
    CAPTURE(text);
    const auto device = parse_device(text);
    REQUIRE(device.has_value());
    CHECK(device->text() == text);
  }
  const Device gpu = parse_device("nodeB/cuda:3").value();
  CHECK(gpu.host == "nodeB");
  CHECK(gpu.kind == "cuda");
  CHECK(gpu.index == 3);
  CHECK(gpu.is_gpu());
  const Device cpu = parse_device("cpu:avx2").value();
  CHECK(cpu.host.empty());
  CHECK(cpu.kind == "cpu:avx2");
  CHECK_FALSE(cpu.index.has_value());
  CHECK_FALSE(cpu.is_gpu());
}

TEST_CASE("what names no device") {
  for (const char* text : {"", "gpu", "CPU", "cpu:", "cpu:0", "cuda:", "cuda:-1", "cuda:01", "cuda:4097", "cuda:0x1",
                           "cuda:1 ", "/cpu", "a/b/cpu", "no de/cpu", "nodeB/", "cpu/cuda:"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_device(text).has_value());
  }
  CHECK(error_of([] { devices_from({"cpu", "what"}); }).fault() == Fault::corrupt);
}

TEST_CASE("the same device of two hosts is two devices") {
  CHECK(parse_device("nodeA/cuda:0") != parse_device("nodeB/cuda:0"));
  CHECK(parse_device("nodeA/cuda:0") != parse_device("cuda:0"));
}

TEST_CASE("lists of devices are compared as often as a device stands in them") {
  const Devices all = list({"cpu", "nodeB/cpu", "cpu"});
  CHECK(without(all, list({"cpu"})) == list({"nodeB/cpu", "cpu"}));
  CHECK(without(all, list({"cpu", "cpu"})) == list({"nodeB/cpu"}));
  CHECK_FALSE(without(all, list({"cpu", "cpu", "cpu"})).has_value());
  CHECK(common(all, list({"cpu", "cpu:sse"})) == list({"cpu"}));
  CHECK(beyond(all, list({"cpu"})) == list({"nodeB/cpu", "cpu"}));
  CHECK(beyond(list({"cpu"}), all).empty());
}

TEST_CASE("GPUs of a host are distinct if none stands in a list twice; a CPU or a GPU of another host is no such GPU") {
  CHECK(are_distinct_gpus_of("", list({"cuda:0", "cuda:1"})));
  CHECK(are_distinct_gpus_of("nodeB", list({"nodeB/cuda:1", "nodeB/cuda:0"})));
  CHECK_FALSE(are_distinct_gpus_of("", list({"cuda:0", "cuda:1", "cuda:0"})));
  CHECK_FALSE(are_distinct_gpus_of("", list({"cuda:0", "cpu"})));
  CHECK_FALSE(are_distinct_gpus_of("", list({"cuda:0", "nodeB/cuda:1"})));
  CHECK_FALSE(are_distinct_gpus_of("nodeA", list({"nodeB/cuda:0", "nodeB/cuda:1"})));
}

TEST_CASE("a list of devices in words") {
  CHECK(list_of({}) == "none");
  CHECK(list_of(list({"cpu", "nodeB/cuda:1"})) == "cpu,nodeB/cuda:1");
}

}  // namespace
}  // namespace estrain::placement
