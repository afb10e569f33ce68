#pragma once
// Python's arithmetic on sizes, used by exported programs besides operators.

#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

namespace estrain::model {

using SizeArithmetic = c10::IValue (*)(const std::vector<c10::IValue>&);

// Returns the function named "add", "floordiv", "lt", "sym_max", …; null: unknown name.
SizeArithmetic size_arithmetic(std::string_view name);

}  // namespace estrain::model
