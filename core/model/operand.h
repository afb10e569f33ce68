#pragma once
// One argument of a call of an exported program, made ready: a constant as LibTorch's dispatcher takes it, or values of
// the program to be looked up when the call is made.

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <vector>

#include "core/program/program.h"

namespace estrain::model {

struct Operand {  // a constant, a value, or a list with values in it
  enum class Kind { constant, value, tensors, optional_tensors, integers };
  Kind kind = Kind::constant;
  c10::IValue constant{};
  int value = -1;
  bool is_tensor = false;  // the operator wants a tensor: a number is wrapped
  bool is_float = false;
  std::vector<Operand> items{};
};

// The argument as an operator asks for it in `formal`; nothing where it is of a kind that it does not take.
std::optional<Operand> to_operand(const program::Argument& argument, const c10::Argument& formal);

// An operand of the arithmetic of sizes: a number or a value; nothing where it is neither.
std::optional<Operand> to_number(const program::Argument& argument);

// What the dispatcher gets, with the program's values by their numbers.
c10::IValue evaluate(const Operand& operand, const std::vector<c10::IValue>& values);

}  // namespace estrain::model
