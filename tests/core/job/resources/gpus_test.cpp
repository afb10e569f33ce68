#include "core/job/resources/gpus.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/files/files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::resources {
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

std::string information(const std::string& model, const std::string& uuid) {
  return "Model: \t\t " + model + "\nIRQ:   \t\t 77\nGPU UUID: \t " + uuid + "\nDevice Minor: \t 0\n";
}

TEST_CASE("models of GPUs, in the order of the bus, as far as CUDA_VISIBLE_DEVICES lets workers see them") {
  const ScratchFolder folder;
  const auto write = [&](const std::string& place, const std::string& text) {
    std::filesystem::create_directory(folder / place);
    write_file_atomically(folder / place + "/information", text);
  };
  write("0000:3b:00.0", information("NVIDIA L4", "GPU-bb11"));
  write("0000:17:00.0", information("NVIDIA A100-PCIE-40GB", "GPU-aa22"));
  write("0000:65:00.0", information("NVIDIA L4", "GPU-bb33"));
  const auto models = [&](std::optional<std::string> visible) { return gpu_models(folder / "", visible); };
  const std::string a100 = "NVIDIA A100-PCIE-40GB", l4 = "NVIDIA L4";
  using Models = std::vector<std::string>;
  CHECK(models({}) == Models{a100, l4, l4});
  CHECK(models("2,0") == Models{l4, a100});
  CHECK(models("GPU-aa") == Models{a100});
  CHECK(models("GPU-bb33,1") == Models{l4, l4});
  CHECK(models("").empty());
  for (const char* unclear : {"3", "GPU-bb", "GPU-cc", "MIG-bb11", "0,x", "-1", "NoDevFiles"}) {
    CAPTURE(unclear);
    CHECK(models(unclear).empty());
  }
  write("0000:99:00.0", "IRQ: 3\n");
  CHECK(models({}).empty());
}

TEST_CASE("without a driver no model is known") { CHECK(gpu_models("/nowhere", {}).empty()); }

}  // namespace
}  // namespace estrain::resources
