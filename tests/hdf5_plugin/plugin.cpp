// A filter that HDF5 loads from a folder: tests/core/formats/h5/filters_test.cpp sees whether it does.
#include <H5PLextern.h>

#include <cstddef>

namespace {

// Adds one to every byte that is read.
size_t add_one(unsigned flags, size_t, const unsigned*, size_t bytes, size_t*, void** buffer) {
  if ((flags & H5Z_FLAG_REVERSE) == 0) return 0;
  auto* byte = static_cast<unsigned char*>(*buffer);
  for (size_t i = 0; i < bytes; ++i) ++byte[i];
  return bytes;
}

const H5Z_class2_t kFilter = {H5Z_CLASS_T_VERS, 511, 0, 1, "estrain's test filter", nullptr, nullptr, add_one};

}  // namespace

extern "C" {
H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void* H5PLget_plugin_info(void) { return &kFilter; }
}
