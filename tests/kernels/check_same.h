#pragma once

#include <doctest/doctest.h>

#include "tests/kernels/bits.h"

namespace estrain::kernels::test {

// Checks for equal bits, except NaN payloads. Shows the first different element.
inline void check_same(const char* what, const Floats& got, const Floats& expected) {
  REQUIRE(got.size() == expected.size());
  const size_t i = first_difference(got, expected);
  if (i == expected.size()) return;
  CAPTURE(what);
  CAPTURE(i);
  CAPTURE(got[i]);
  CAPTURE(expected[i]);
  REQUIRE(i == expected.size());
}

}  // namespace estrain::kernels::test
