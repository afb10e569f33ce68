#pragma once
// Access to the JSON of a program, field by field: a field that is absent or of another type is an error that names it.

#include <string>
#include <string_view>
#include <utility>

#include "core/base/json.h"
#include "core/program/program.h"

namespace estrain::program {

// What is no sound program. Advice: export it again.
Error damaged_program(const std::string& what);
// What is sound, but not known here.
Error unknown_in_program(const std::string& what);

const Json& field(const Json& object, const char* name);
const Json& list_field(const Json& object, const char* name);
const std::string& text(const Json& value);
int64_t whole(const Json& value);
double number(const Json& value);  // also "Infinity", "-Infinity", "NaN", as torch writes them
bool truth(const Json& value);

// The schema's unions: an object with one member, whose name says what it is.
std::pair<std::string_view, const Json&> one_of(const Json& object);

Type type_from(const Json& value);
Size size_from(const Json& sym_int);

// Sizes, strides and place of a stored tensor: numbers only.
struct StoredMeta {
  Type type;
  std::vector<int64_t> sizes;
  int64_t offset;  // in elements, into its storage
  bool requires_grad;
  uint64_t elements;
};
// Throws damaged_program() where it cannot be, unknown_in_program() where its elements do not stand one after another.
StoredMeta stored_meta_from(const Json& meta, const std::string& name);

// Of the user: "net.py:12", from a node's stack trace; empty where there is none.
std::string user_line(std::string_view stack_trace);
// "encoder.layer.0", from a node's nn_module_stack.
std::string module_of(std::string_view module_stack);

}  // namespace estrain::program
