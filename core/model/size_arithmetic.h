#pragma once
// Python's arithmetic on sizes, as an exported program asks for it beside its operators.

#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

namespace estrain::model {

using SizeArithmetic = c10::IValue (*)(const std::vector<c10::IValue>&);

// "add", "floordiv", "lt", "sym_max", …; null: not known.
SizeArithmetic size_arithmetic(std::string_view name);

}  // namespace estrain::model
