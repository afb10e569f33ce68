#include "core/formats/program/program.h"

#include <fmt/ranges.h>

#include <array>

namespace estrain::program {
namespace {

struct TypeInfo {
  size_t size;
  std::string_view name;
};

// By number; 0 is no type.
constexpr std::array<TypeInfo, 14> kTypes = {{{0, ""},
                                              {1, "uint8"},
                                              {1, "int8"},
                                              {2, "int16"},
                                              {4, "int32"},
                                              {8, "int64"},
                                              {2, "float16"},
                                              {4, "float32"},
                                              {8, "float64"},
                                              {4, "complex32"},
                                              {8, "complex64"},
                                              {16, "complex128"},
                                              {1, "bool"},
                                              {2, "bfloat16"}}};

}  // namespace

size_t type_size(ScalarType type) { return kTypes.at(static_cast<size_t>(type)).size; }

std::string_view type_name(ScalarType type) { return kTypes.at(static_cast<size_t>(type)).name; }

std::string sizes_text(const std::vector<SymInt>& sizes) {
  std::vector<std::string> words;
  for (const SymInt& size : sizes) words.push_back(size.symbol.empty() ? std::to_string(size.number) : size.symbol);
  return fmt::format("[{}]", fmt::join(words, ", "));
}

bool is_in_c_order(const StoredTensor& tensor) {
  int64_t expected = 1;
  for (size_t d = tensor.sizes.size(); d-- > 0;) {
    if (tensor.sizes[d] == 0) return true;
    if (tensor.sizes[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.sizes[d];
  }
  return true;
}

std::string Call::place() const {
  if (line.empty()) return module;
  return module.empty() ? line : fmt::format("{} ({})", module, line);
}

}  // namespace estrain::program
