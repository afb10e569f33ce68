// Exported programs. Input: a byte that selects what is fuzzed: the bytes of the archive, or, within valid zip records,
// the JSON of the graph, of the weights' table, or a weight.
#include "core/formats/program/program.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/program_file.h"

namespace estrain::fuzz {
namespace {

void read(const std::string& file) {
  accepts([&] {
    const program::Program read = program::read_program(std::as_bytes(std::span(file)), "fuzz.pt2");
    for (const auto* list : {&read.parameters, &read.buffers, &read.constants}) {
      for (const program::StoredTensor& tensor : *list) {
        require(tensor.value >= 0 && tensor.value < read.values, "a tensor's number is one of the values");
        unsigned sum = 0;
        for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
        require(sum < UINT32_MAX, "every byte can be read");
      }
    }
    for (const program::Call& call : read.calls) {
      require(call.modes < read.modes.size(), "modes are there");
      for (const program::Call::Result& result : call.results)
        for (const int value : result.values) require(value >= 0 && value < read.values, "a result is a value");
    }
    for (const int output : read.outputs) require(output >= 0 && output < read.values, "an output is a value");
  });
}

using Members = std::vector<std::pair<std::string, std::string>>;

// The members of a sound program: the graph, the tables of weights and constants, then weights.
Members sound_members() {
  const testing::ProgramParts sound = testing::small_program();
  Members members = {{"net/models/model.json", sound.model.dump()},
                     {"net/data/weights/model_weights_config.json", sound.weights.dump()},
                     {"net/data/constants/model_constants_config.json", sound.constants.dump()}};
  for (const auto& [name, bytes] : sound.files) members.emplace_back("net/" + name, bytes);
  return members;
}

// `text` in the place of part 1, 2, 3, or of every weight.
std::string archive_with(uint8_t part, const std::string& text) {
  static const Members sound = sound_members();
  Members members = sound;
  for (size_t i = part - 1; i < members.size() && (i < part || part == 4); ++i) members[i].second = text;
  return testing::zip_of(members);
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const uint8_t part = data[0] % 5;
  estrain::fuzz::read(part == 0 ? rest : estrain::fuzz::archive_with(part, rest));
  return 0;
}
