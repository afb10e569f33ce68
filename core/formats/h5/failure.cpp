#include "core/formats/h5/failure.h"

#include <hdf5.h>

#include <cstdlib>
#include <string>

#include "core/formats/h5/elsewhere.h"
#include "core/formats/h5/filters.h"

namespace estrain::h5 {
namespace {

herr_t keep_innermost(unsigned depth, const H5E_error2_t* entry, void* message) {
  if (depth == 0 && entry->desc != nullptr) *static_cast<std::string*>(message) = entry->desc;
  return 0;
}

// HDF5's file drivers put "..., errno = 28, error message = '...'" into their messages.
int errno_in(const std::string& message) {
  const std::string mark = "errno = ";
  const size_t at = message.find(mark);
  return at == std::string::npos ? 0 : std::atoi(message.c_str() + at + mark.size());
}

}  // namespace

void quiet() {
  thread_local const bool done = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  (void)done;
  static const bool set_up = (take_over_external_links(), set_up_filters(), true);
  (void)set_up;
}

Error failure(Fault fault, std::string_view what) {
  std::string message = "unknown HDF5 error";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &message);
  H5Eclear2(H5E_DEFAULT);
  if (const int number = errno_in(message)) return system_error(what, number);
  return Error::make(fault, "{}: HDF5: {}", what, message);
}

}  // namespace estrain::h5
