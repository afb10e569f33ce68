// Safetensors files of any bytes: the tensors of an accepted file cover it exactly and can be read to the last byte.
#include <vector>

#include "core/state/checkpoint/models/safetensors.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

void read_all(const std::string& path, size_t size) {
  using namespace estrain;
  const auto file = checkpoint::SafetensorsFile::open(path);
  uint64_t bytes = 0;
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const checkpoint::Safetensor& tensor = file.tensors()[i];
    fuzz::require(tensor.offset <= size && tensor.bytes <= size - tensor.offset, "a tensor lies in its file");
    std::vector<std::byte> elements(tensor.bytes);
    file.read(i, elements.data());
    bytes += tensor.bytes;
  }
  fuzz::require(bytes + 8 <= size, "the tensors together are shorter than the file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace estrain;
  static const fuzz::MemoryFile file;
  file.set(fuzz::text_of(data, size));
  fuzz::accepts([&] { read_all(file.path(), size); });
  return 0;
}
