#pragma once
// What the portable kernels do not cover: a type or a case of an operator that they replace.

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

// Whether a scan (scan.h) is under way, which lists refusals.
bool is_scanning();

// Throws Refusal. A scan is told of it.
[[noreturn]] void refuse_type(const char* name, at::ScalarType type);
[[noreturn]] void refuse_case(const char* name, const char* which);

}  // namespace estrain::operators
