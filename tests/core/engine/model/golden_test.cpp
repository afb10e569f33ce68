// Names and initial weights compared with Python's PyTorch and torchvision. `scripts/peers/model_bits.py --golden`
// prints the table and defines the digests.
#include <ATen/Version.h>
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <cstring>
#include <vector>

#include "tests/core/engine/model/sample_jobs.h"

namespace estrain::model {
namespace {

struct Golden {
  std::string name;
  uint64_t names;
  uint64_t values;
};

const Golden kGolden[] = {
    {"mlp", 0x5c9e7f5f4c18ac7f, 0x2b4203138e55f7c4},      {"lenet", 0x5345b40306d32cd1, 0x3931da8624a47b7a},
    {"resnet18", 0xa753cfea8d7c3870, 0x6548409584e1eb83}, {"resnet34", 0x5576a7492b1bc0a8, 0xf13dcaba0cf4f5c6},
    {"resnet50", 0x5285dd391e413436, 0x7e0457ff2ef4666f}, {"vgg11", 0x2803df3909b54825, 0x3edf11e135e1c079},
    {"vgg19", 0x2c50b512d7f61ad2, 0xc2a43c574a6a9886},    {"gpt", 0xba98c1952aff859b, 0x9cdab6400102c494},
};

constexpr uint64_t kGoldenSeed = 7;

void add_name(uint64_t& digest, const std::string& name, const torch::Tensor& tensor) {
  const std::string line = fmt::format("{} [{}]\n", name, fmt::join(tensor.sizes().vec(), ", "));
  for (const char c : line) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001B3;
}

uint64_t name_digest(const NamedTensors& tensors) {
  uint64_t digest = 0xCBF29CE484222325;
  for (const auto& [name, tensor] : tensors.parameters) add_name(digest, name, tensor);
  for (const auto& [name, tensor] : tensors.buffers) add_name(digest, name, tensor);
  return digest;
}

uint64_t value_digest(const NamedTensors& tensors) {
  uint64_t digest = 0;
  uint64_t weight = 1;
  for (const auto& [name, tensor] : tensors.parameters) {
    std::vector<uint32_t> words(static_cast<size_t>(tensor.numel()));
    std::memcpy(words.data(), tensor.const_data_ptr<float>(), words.size() * sizeof(uint32_t));
    for (const uint32_t word : words) {
      digest += word * weight;
      weight += 2;
    }
  }
  return digest;
}

TEST_CASE("names and shapes, in state_dict order, are Python's") {
  for (const Golden& golden : kGolden) {
    CAPTURE(golden.name);
    const auto model = build_sample(section_of(golden.name), Initializer::skip());
    CHECK(name_digest(named_tensors(*model)) == golden.names);
  }
}

// ATen's code without vector instructions draws other normal numbers.
TEST_CASE("initial weights are Python's, bit for bit" * doctest::skip(at::get_cpu_capability() == "DEFAULT")) {
  for (const Golden& golden : kGolden) {
    CAPTURE(golden.name);
    const auto model = build_sample(section_of(golden.name), seeded(kGoldenSeed));
    CHECK(value_digest(named_tensors(*model)) == golden.values);
  }
}

}  // namespace
}  // namespace estrain::model
