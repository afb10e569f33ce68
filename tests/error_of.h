#pragma once
// Returns the Error thrown by the code, which must throw.

#include <doctest/doctest.h>

#include <utility>

#include "core/base/error.h"

template <typename Body>
estrain::Error error_of(Body&& body) {
  try {
    std::forward<Body>(body)();
  } catch (const estrain::Error& error) {
    return error;
  }
  FAIL_CHECK("no error was thrown");
  return estrain::Error(estrain::Fault::bug, "none");
}
