// Damaged checkpoints. The last byte is not part of the file; if odd, the digest of the user block is corrected, so
// that the seal's list is fuzzed too. Any difference from a written file must be refused before HDF5 sees it; only an
// undamaged file may be accepted.
#include "tests/fuzz/checkpoint_input.h"

namespace estrain::fuzz {
namespace {

// The structure's digest, which is not corrected here, is right only by a chance of 2^-64.
void read(std::string_view bytes, bool fits) {
  static const MemoryFile file;
  const std::string content = fits ? resealed(std::string(bytes), false) : std::string(bytes);
  file.set(content);
  read_whole_checkpoint(file.path());
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) estrain::fuzz::read(estrain::fuzz::text_of(data, size - 1), (data[size - 1] & 1) != 0);
  return 0;
}
