#include "core/engine/device/device.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <torch/types.h>

#include <array>
#include <fstream>
#include <stdexcept>

#include "core/engine/device/cpu.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::device {
namespace {

using State = std::array<float, 64>;

std::byte* bytes_of(State& state) { return reinterpret_cast<std::byte*>(state.data()); }

torch::Tensor view_of(const Mirror& mirror, int64_t first, int64_t size) {
  torch::Tensor view = torch::empty({0}, torch::kFloat);
  return view.set_(mirror.storage(), first, {size}, {1});
}

TEST_CASE("on the CPU, what is only read is the state itself") {
  alignas(256) State even{}, odd{};
  even[3] = 1, odd[3] = 2;
  CpuDevice cpu;
  const auto mirror = cpu.mirror(sizeof(State), MirrorUse::read_only);
  const torch::Tensor view = view_of(*mirror, 3, 5);
  for (State* state : {&even, &odd, &even}) {
    mirror->load(bytes_of(*state));
    CHECK(view.const_data_ptr<float>() == state->data() + 3);
  }
}

TEST_CASE("on the CPU, what is written is a copy, loaded and stored at once") {
  alignas(256) State from{}, to{};
  from[10] = 5;
  CpuDevice cpu;
  const auto mirror = cpu.mirror(sizeof(State), MirrorUse::written);
  CHECK(reinterpret_cast<uintptr_t>(mirror->storage().data()) % 64 == 0);
  const torch::Tensor view = view_of(*mirror, 10, 2);
  mirror->load(bytes_of(from));
  CHECK(view[0].item<float>() == 5);
  view.add_(1);
  CHECK(from[10] == 5);
  bool stored = false;
  mirror->store(bytes_of(to), [&] { stored = to[10] == 6 && to[11] == 1; });
  CHECK(stored);
}

TEST_CASE("a model without buffers has an empty mirror of them") {
  CpuDevice cpu;
  const auto mirror = cpu.mirror(0, MirrorUse::written);
  CHECK(mirror->storage().nbytes() == 0);
  bool stored = false;
  mirror->load(nullptr);
  mirror->store(nullptr, [&] { stored = true; });
  CHECK(stored);
}

TEST_CASE("on the CPU nothing is copied and nothing waits") {
  CpuDevice cpu;
  const torch::Tensor values = torch::tensor({1.0f, 2.0f});
  CHECK(cpu.upload(values).is_same(values));
  std::vector<int> order;
  cpu.read(values, [&](const float* read) { order.push_back(read == values.const_data_ptr<float>() ? 1 : -1); });
  cpu.defer([&] { order.push_back(2); });
  CHECK(order == std::vector<int>{1, 2});
  CHECK_FALSE(cpu.generator().has_value());
  CHECK(open_device("cpu:avx2", "")->torch_device() == c10::Device(c10::kCPU));
}

// A device whose work fails.
class Failing : public CpuDevice {
 public:
  void finish() override {
    ++finished;
    throw std::runtime_error("the GPU is lost");
  }
  int finished = 0;
};

TEST_CASE("the end of a scope waits for the device, and lets the exception under way pass") {
  Failing device;
  const auto leave = [&] {
    const FinishAtEnd finish(device);
    throw std::logic_error("no such sample");
  };
  CHECK_THROWS_WITH(leave(), "no such sample");
  { const FinishAtEnd finish(device); }
  CHECK(device.finished == 2);
}

bool has_driver() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver != nullptr && reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"))(0) == 0;
}

TEST_CASE("a GPU is refused where the program was built without CUDA") {
  const ScratchFolder folder;
  const Error error = error_of([&] { open_device("cuda:0", folder.path()); });
  CHECK(error.fault() == Fault::device);
  CHECK(error.message().find("cuda:0: this estrain was built without CUDA") == 0);
  CHECK(error.advice().find("scripts/build") != std::string::npos);
}

TEST_CASE("a GPU is refused where no driver runs, before any library is loaded" * doctest::skip(has_driver())) {
  const ScratchFolder folder;
  std::ofstream(folder.path() + "/libestrain_cuda.so") << "no library at all";
  const Error error = error_of([&] { open_device("cuda:0", folder.path()); });
  CHECK(error.fault() == Fault::device);
  CHECK(error.message().find("NVIDIA driver") != std::string::npos);
  CHECK_FALSE(error.advice().empty());
}

TEST_CASE("a library that does not load is named, with the way to get it" * doctest::skip(!has_driver())) {
  const ScratchFolder folder;
  std::ofstream(folder.path() + "/libestrain_cuda.so") << "no library at all";
  const Error error = error_of([&] { open_device("cuda:0", folder.path()); });
  CHECK(error.fault() == Fault::device);
  CHECK(error.message().find("libestrain_cuda.so") != std::string::npos);
}

TEST_CASE("names that are no device are bugs: lists are parsed before") {
  for (const char* name : {"", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "gpu", "cpus"}) {
    CAPTURE(name);
    CHECK(error_of([&] { open_device(name, "."); }).fault() == Fault::bug);
  }
}

}  // namespace
}  // namespace estrain::device
