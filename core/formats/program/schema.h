#pragma once
// Access to the JSON of a program, field by field: an error for an absent or wrongly typed field names the field.

#include <string>
#include <string_view>
#include <utility>

#include "core/base/json/json.h"
#include "core/formats/program/program.h"

namespace estrain::program {

// Returns the error for an invalid program. Advice: export the program again.
Error damaged_program(const std::string& what);
// Returns the error for a valid program with unsupported content.
Error unknown_in_program(const std::string& what);

const Json& field(const Json& object, const char* name);
const Json& list_field(const Json& object, const char* name);
const std::string& text(const Json& value);
int64_t whole(const Json& value);
double number(const Json& value);  // also "Infinity", "-Infinity", "NaN", as written by torch
bool truth(const Json& value);

// Reads the schema's unions: an object with a single member, whose name is the kind.
std::pair<std::string_view, const Json&> one_of(const Json& object);

ScalarType type_from(const Json& value);
SymInt size_from(const Json& sym_int);

// Sizes, strides and position of a stored tensor: numbers only.
struct StoredMeta {
  ScalarType type;
  std::vector<int64_t> sizes, strides;
  int64_t offset;  // in elements, into the storage
  bool requires_grad;
  uint64_t elements;
};
// Throws damaged_program() for invalid content, unknown_in_program() if the tensor's elements overlap or have gaps.
StoredMeta stored_meta_from(const Json& meta, const std::string& name);

// Returns the user's line, "net.py:12", from a node's stack trace; empty without such a line.
std::string user_line(std::string_view stack_trace);
// "encoder.layer.0" and "torch.nn.modules.linear.Linear", from a node's nn_module_stack.
struct ModuleEntry {
  std::string name, type;
};
ModuleEntry module_of(std::string_view module_stack);

}  // namespace estrain::program
