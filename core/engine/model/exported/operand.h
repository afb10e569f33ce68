#pragma once
// An Operand is a prepared argument of a call in an exported program: a constant for LibTorch's dispatcher, or values
// of the program, looked up at the call.

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <optional>
#include <vector>

#include "core/formats/program/program.h"

namespace estrain::model {

struct Operand {  // a constant, a value, or a list with values in it
  enum class Kind { constant, value, tensors, optional_tensors, integers };
  Kind kind = Kind::constant;
  c10::IValue constant{};
  int value = -1;
  bool is_tensor = false;  // the operator needs a tensor: a number is wrapped
  bool is_float = false;
  std::vector<Operand> items{};
};

// Returns the operand for an operator's `formal` argument; nothing if the kinds do not match. Every device that the
// program names becomes `device`.
std::optional<Operand> to_operand(const program::Argument& argument, const c10::Argument& formal, c10::Device device);

// Returns an operand for arithmetic on sizes: a number or a value; nothing for other arguments.
std::optional<Operand> to_number(const program::Argument& argument);

// Returns the dispatcher's argument; `values` are the program's values by number.
c10::IValue evaluate(const Operand& operand, const std::vector<c10::IValue>& values);

}  // namespace estrain::model
