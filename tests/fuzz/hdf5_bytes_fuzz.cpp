// Image data in HDF5 files of any bytes. Such files have no checksum, so the HDF5 library parses anything; its own bugs
// appear here.
#include "tests/fuzz/read_samples.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace estrain;
  static const fuzz::MemoryFile file;
  file.set(fuzz::text_of(data, size));
  spec::DataSection section;
  section.format = spec::DataFormat::hdf5;
  section.path = file.path();
  fuzz::accepts([&] { fuzz::read_samples(data::open(section, 0, 1)); });
  return 0;
}
