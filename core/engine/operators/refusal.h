#pragma once
// A Refusal names a gap of the portable kernels: a type or a case of a replaced operator.

#include <c10/core/ScalarType.h>

#include <string>

#include "core/base/error.h"

namespace estrain::operators {

struct Refusal : Error {
  // `name` without "aten::"; `which`: "on Double", "with products".
  Refusal(const std::string& operator_name, std::string refused, const std::string& advice);

  std::string name;
  std::string which;
};

// Returns whether a scan (scan.h) is under way. A scan lists refusals.
bool is_scanning();

// Throws Refusal. Tells a scan of the refusal.
[[noreturn]] void refuse_type(const char* name, at::ScalarType type);
[[noreturn]] void refuse_case(const char* name, const char* which);

}  // namespace estrain::operators
