// Forged checkpoints with a valid seal, so that HDF5 parses arbitrary bytes. estrain does not promise to survive them
// (the seal detects faults, not forgery): scripts/fuzz runs this target only when it is named.
#include "tests/fuzz/checkpoint_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const estrain::fuzz::MemoryFile file;
  file.set(estrain::fuzz::resealed(std::string(estrain::fuzz::text_of(data, size)), true));
  estrain::fuzz::read_whole_checkpoint(file.path());
  return 0;
}
