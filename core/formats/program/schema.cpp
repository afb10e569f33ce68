#include "core/formats/program/schema.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/base/json/json_fields.h"

namespace estrain::program {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 40;  // of a dimension
constexpr size_t kMostDimensions = 64;
constexpr int64_t kStrided = 7;  // of the schema's layouts

std::string short_text(const Json& value) {
  std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > 60) shown = shown.substr(0, 60) + "…";
  return shown;
}

std::vector<int64_t> numbers_from(const Json& sym_ints, const std::string& name) {
  std::vector<int64_t> numbers;
  for (const Json& sym_int : sym_ints) {
    const SymInt size = size_from(sym_int);
    if (!size.symbol.empty()) throw damaged_program(name + ": a stored tensor with a size that is not a number");
    numbers.push_back(size.number);
  }
  return numbers;
}

// Returns whether the elements fill their memory, each element in its own place, in any order. The number of elements
// is an int64_t.
bool is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, size
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1) steps.emplace_back(strides[d], sizes[d]);
  }
  std::ranges::sort(steps);
  int64_t expected = 1;
  for (const auto& [stride, size] : steps) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

bool is_library_frame(std::string_view path) {
  return path.starts_with("torch/") || path.find("/torch/") != std::string_view::npos;
}

}  // namespace

Error damaged_program(const std::string& what) {
  return Error::make(Fault::corrupt, "not a valid program: {}", what)
      .advise("export it again (estrain export); the file must be written by torch.export.save");
}

Error unknown_in_program(const std::string& what) {
  return Error::make(Fault::mismatch, "{}: not supported", what)
      .advise("change the module so that its export does not need it");
}

const Json& field(const Json& object, const char* name) {
  if (!object.is_object()) throw damaged_program(fmt::format("{} should have a field {}", short_text(object), name));
  const auto found = object.find(name);
  if (found == object.end()) throw damaged_program(fmt::format("{} lacks the field {}", short_text(object), name));
  return *found;
}

const Json& list_field(const Json& object, const char* name) {
  const Json& list = field(object, name);
  if (!list.is_array()) throw damaged_program(fmt::format("{} is not a list: {}", name, short_text(list)));
  return list;
}

const std::string& text(const Json& value) {
  if (!value.is_string()) throw damaged_program(short_text(value) + " is in place of a text");
  return value.get_ref<const std::string&>();
}

int64_t whole(const Json& value) {
  const std::optional<int64_t> read = as_whole(value);
  if (!read) throw damaged_program(short_text(value) + " is in place of a whole number");
  return *read;
}

double number(const Json& value) {
  if (value.is_string()) {
    const std::string& word = text(value);
    if (word == "Infinity") return std::numeric_limits<double>::infinity();
    if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  const std::optional<double> read = as_number(value);
  if (!read) throw damaged_program(short_text(value) + " is in place of a number");
  return *read;
}

bool truth(const Json& value) {
  if (!value.is_boolean()) throw damaged_program(short_text(value) + " is in place of true or false");
  return value.get<bool>();
}

std::pair<std::string_view, const Json&> one_of(const Json& object) {
  if (!object.is_object() || object.size() != 1) throw damaged_program(short_text(object) + " should have one member");
  return {object.begin().key(), object.begin().value()};
}

ScalarType type_from(const Json& value) {
  const int64_t n = whole(value);
  if (n < 1 || n > static_cast<int64_t>(ScalarType::bf16))
    throw unknown_in_program(fmt::format("element type {} of the schema", n));
  return static_cast<ScalarType>(n);
}

// Returns "s77" of "Symbol('s77', positive=True, integer=True)", the symbol's name in the ranges; else the expression.
std::string symbol_in(const std::string& expression) {
  constexpr std::string_view kBefore = "Symbol('";
  const size_t end = expression.find('\'', kBefore.size());
  const bool is_one = expression.starts_with(kBefore) && end != std::string::npos &&
                      expression.find('(', kBefore.size()) == std::string::npos;
  return is_one ? expression.substr(kBefore.size(), end - kBefore.size()) : expression;
}

SymInt size_from(const Json& sym_int) {
  const auto [kind, value] = one_of(sym_int);
  if (kind == "as_expr") return {.number = 0, .symbol = symbol_in(text(field(value, "expr_str")))};
  if (kind != "as_int") throw damaged_program(fmt::format("a size that is {}", kind));
  const int64_t size = whole(value);
  if (size < 0 || size > kLargestSize) throw damaged_program(fmt::format("a size of {}", size));
  return {.number = size};
}

StoredMeta stored_meta_from(const Json& meta, const std::string& name) {
  StoredMeta read{type_from(field(meta, "dtype")),
                  numbers_from(list_field(meta, "sizes"), name),
                  numbers_from(list_field(meta, "strides"), name),
                  0,
                  truth(field(meta, "requires_grad")),
                  1};
  read.offset = size_from(field(meta, "storage_offset")).number;
  if (read.strides.size() != read.sizes.size() || read.sizes.size() > kMostDimensions)
    throw damaged_program(name + ": sizes and strides do not match");
  for (const int64_t size : read.sizes)
    if (__builtin_mul_overflow(read.elements, static_cast<uint64_t>(size), &read.elements) ||
        read.elements > uint64_t{std::numeric_limits<int64_t>::max()})
      throw damaged_program(name + ": more elements than can be counted");
  if (whole(field(meta, "layout")) != kStrided) throw unknown_in_program(name + ": a sparse tensor");
  if (!is_dense(read.sizes, read.strides))
    throw unknown_in_program(name + ": a tensor whose elements share memory or have gaps")
        .advise("give it memory of its own before the export: tensor.clone(memory_format=torch.contiguous_format)");
  return read;
}

std::string user_line(std::string_view stack_trace) {
  constexpr std::string_view file = "File \"", line = "\", line ";
  std::string found;
  for (size_t at = stack_trace.find(file); at != std::string_view::npos; at = stack_trace.find(file, at + 1)) {
    const size_t path_at = at + file.size(), path_end = stack_trace.find(line, path_at);
    if (path_end == std::string_view::npos) break;
    const std::string_view path = stack_trace.substr(path_at, path_end - path_at);
    if (path.find('\n') != std::string_view::npos || is_library_frame(path)) continue;
    const size_t digits = path_end + line.size();
    const size_t end = stack_trace.find_first_not_of("0123456789", digits);
    const size_t slash = path.rfind('/');
    found = fmt::format("{}:{}", slash == std::string_view::npos ? path : path.substr(slash + 1),
                        stack_trace.substr(digits, end == std::string_view::npos ? end : end - digits));
  }
  return found;
}

ModuleEntry module_of(std::string_view module_stack) {
  const size_t last = module_stack.rfind(';');
  const std::string_view entry = last == std::string_view::npos ? module_stack : module_stack.substr(last + 1);
  const size_t begin = entry.find(',');
  if (begin == std::string_view::npos) return {};
  const size_t end = entry.find(',', begin + 1);
  const std::string_view name = entry.substr(begin + 1, end - begin - 1);
  return {std::string(name.substr(0, name.find('@'))),
          std::string(end == std::string_view::npos ? "" : entry.substr(end + 1))};
}

}  // namespace estrain::program
