#include "core/job/resources/gpus.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/files/files.h"
#include "core/job/resources/nvml.h"
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

TEST_CASE(
    "auto takes the GPUs of the allocation, else those that the driver shows; GPUs left unused come with a reason") {
  const GpuFacts bare = {.support = {.driver = true, .library = true}, .seen = 4};
  const auto with = [&](auto change) {
    GpuFacts facts = bare;
    change(facts);
    return automatic_gpus(facts);
  };
  const auto taken = [](const AutomaticGpus& gpus) { return fmt::format("{} {}", gpus.usable, gpus.from); };
  const auto grant = [](GpuFacts& facts, int64_t count) {
    facts.granted = count;
    facts.granted_by = "CUDA_VISIBLE_DEVICES";
  };
  CHECK(taken(automatic_gpus(bare)) == "4 the driver");
  CHECK(taken(with([&](GpuFacts& facts) { grant(facts, 2); })) == "2 CUDA_VISIBLE_DEVICES");
  CHECK(with([&](GpuFacts& facts) { grant(facts, 8); }).usable == 4);
  CHECK(with([&](GpuFacts& facts) { grant(facts, 0); }).warning().empty());  // hidden on purpose
  const auto of_slurm = [](GpuFacts& facts) {
    facts.in_slurm = true;
    facts.granted_by = "SLURM_GPUS_ON_NODE";
  };
  CHECK(taken(with([&](GpuFacts& facts) {
          of_slurm(facts);
          facts.granted = 1;
        })) == "1 SLURM_GPUS_ON_NODE");
  const AutomaticGpus none = with(of_slurm);
  CHECK(none.usable == 0);
  CHECK(none.warning() ==
        "4 GPUs are visible and not used: this Slurm job has none; ask for GPUs: sbatch --gres=gpu:N");

  const auto refused = [&](auto change, const std::string& beginning) {
    const AutomaticGpus gpus = with(change);
    CHECK(gpus.usable == 0);
    CHECK_MESSAGE(gpus.warning().starts_with(beginning), gpus.warning());
  };
  refused([](GpuFacts& facts) { facts.support.library = false; },
          "4 GPUs are visible and not used: this estrain was built without CUDA; build it");
  refused(
      [&](GpuFacts& facts) {
        facts.support.driver = false;
        facts.seen = 0;
        grant(facts, 1);
      },
      "1 GPU is visible and not used: no NVIDIA driver runs");
  refused([](GpuFacts& facts) { facts.sliced = true; }, "4 GPUs are visible and not used: a GPU is partitioned (MIG)");
  // Partitions are more than GPUs.
  CHECK(with([&](GpuFacts& facts) {
          facts.sliced = true;
          grant(facts, 7);
        }).usable == 7);
  const AutomaticGpus without = automatic_gpus({});
  CHECK(without.usable == 0);
  CHECK(without.warning().empty());
}

TEST_CASE("auto on GPUs is a worker on each, at most one for each EST; without GPUs it stays auto") {
  CHECK(AutomaticGpus{.usable = 3}.device_list(8) == "cuda*3");
  CHECK(AutomaticGpus{.usable = 3}.device_list(2) == "cuda*2");
  AutomaticGpus gpus = {.usable = 3};
  gpus.leave("the job cannot use them");
  CHECK(gpus.device_list(2) == "auto");
  CHECK(gpus.warning() == "3 GPUs are visible and not used: the job cannot use them");
  AutomaticGpus none;
  none.leave("the job cannot use them");
  CHECK(none.warning().empty());
}

std::string information(const std::string& model, const std::string& uuid) {
  return "Model: \t\t " + model + "\nIRQ:   \t\t 77\nGPU UUID: \t " + uuid + "\nDevice Minor: \t 0\n";
}

TEST_CASE("models and memory of GPUs, in the order of the bus, as far as CUDA_VISIBLE_DEVICES lets workers see them") {
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
  const auto memories = [&](std::optional<std::string> visible) {
    return gpu_memories(folder / "", visible, [](const std::vector<std::string>& places) {
      std::vector<uint64_t> bytes;
      for (const std::string& place : places) bytes.push_back(place == "0000:17:00.0" ? 40 : 24);
      return bytes;
    });
  };
  using Memories = std::vector<uint64_t>;
  CHECK(memories({}) == Memories{40, 24, 24});
  CHECK(memories("2,0") == Memories{24, 40});
  CHECK(memories("MIG-bb11").empty());
  write("0000:99:00.0", "IRQ: 3\n");
  CHECK(models({}).empty());
  CHECK(memories({}).empty());
}

TEST_CASE("no memory is told of a place without a GPU") {
  CHECK(memory_of_gpus_at({}).empty());
  CHECK(memory_of_gpus_at({"ffff:ff:1f.7"}).empty());
}

TEST_CASE("without a driver no model is known") { CHECK(gpu_models("/nowhere", {}).empty()); }

}  // namespace
}  // namespace estrain::resources
