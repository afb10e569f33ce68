#pragma once
// From HDF5's error stack to our Error. Internal to this folder.

#include <cstdint>
#include <string_view>

#include "core/base/error.h"

namespace estrain::h5 {

// Keeps HDF5 from printing to stderr. The setting is per thread, so every public function of this folder says it first.
void quiet();

// "what: HDF5's innermost message". A message that carries an errno becomes Fault::io with that errno's text and
// advice.
Error failure(Fault fault, std::string_view what);

// Passes a result on; a negative one is thrown as failure(fault, what). Any HDF5 call clears the error stack, closing a
// Handle too: temporaries must not die between the call and its check.
template <typename Result>
Result check(Result result, Fault fault, std::string_view what) {
  if (result < 0) throw failure(fault, what);
  return result;
}

}  // namespace estrain::h5
