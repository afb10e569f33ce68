// Damaged checkpoints. The last byte, which is not part of the file: odd for one whose user block carries the digest
// that fits it, so that what the seal lists is fuzzed too. Whatever differs from a file that was written must be
// refused before HDF5 sees it; only a file that was not damaged may be accepted.
#include "tests/fuzz/checkpoint_input.h"

namespace estrain::fuzz {
namespace {

// The structure's digest, which nothing here makes fit, is right only by a chance of 2^-64.
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
