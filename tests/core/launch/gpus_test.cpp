#include "core/launch/gpus.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

namespace estrain::launch {
namespace {

TEST_CASE("what is missing for a GPU is said, with what to do; the program before the machine") {
  const auto refusal = [](GpuSupport support) { return error_of([=] { require_gpu_support(support, "cuda:3"); }); };
  const Error no_driver = refusal({.driver = false, .library = true});
  CHECK(no_driver.fault() == Fault::device);
  CHECK(no_driver.message() == "device \"cuda:3\": no NVIDIA driver runs on this machine");
  CHECK(no_driver.advice().find("install the driver") != std::string::npos);
  for (const bool driver : {false, true}) {
    const Error no_library = refusal({.driver = driver, .library = false});
    CHECK(no_library.fault() == Fault::device);
    CHECK(no_library.message() == "device \"cuda:3\": this estrain was built without CUDA");
    CHECK(no_library.advice().find("nvcc") != std::string::npos);
  }
  CHECK_NOTHROW(require_gpu_support({.driver = true, .library = true}, "cuda:3"));
}

}  // namespace
}  // namespace estrain::launch
