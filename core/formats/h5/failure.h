#pragma once
// Converts HDF5's error stack to an Error. Internal to this folder.

#include <cstdint>
#include <string_view>

#include "core/base/error.h"

namespace estrain::h5 {

// Keeps HDF5 from printing to stderr. The setting is per thread, and every public function of this folder calls quiet()
// first. The first call makes the settings of the process: external links (elsewhere.h) and filters (filters.h).
void quiet();

// Returns "what: HDF5's innermost message". A message with an errno becomes Fault::io with that errno's text and
// advice.
Error failure(Fault fault, std::string_view what);

// Returns a result; throws failure(fault, what) for a negative result. Any HDF5 call clears the error stack, including
// closing a Handle, so temporaries must not be destroyed between the call and its check.
template <typename Result>
Result check(Result result, Fault fault, std::string_view what) {
  if (result < 0) throw failure(fault, what);
  return result;
}

}  // namespace estrain::h5
