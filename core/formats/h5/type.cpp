#include "core/formats/h5/type.h"

#include <fmt/ranges.h>

namespace estrain::h5 {

size_t type_size(Type type) {
  switch (type) {
    case Type::i8:
    case Type::u8:
    case Type::boolean:
      return 1;
    case Type::i16:
    case Type::u16:
      return 2;
    case Type::f32:
    case Type::i32:
    case Type::u32:
      return 4;
    case Type::f64:
    case Type::i64:
    case Type::u64:
      return 8;
    case Type::other:
      return 0;
  }
  return 0;
}

std::string_view type_name(Type type) {
  switch (type) {
    case Type::f32:
      return "float32";
    case Type::f64:
      return "float64";
    case Type::i8:
      return "int8";
    case Type::i16:
      return "int16";
    case Type::i32:
      return "int32";
    case Type::i64:
      return "int64";
    case Type::u8:
      return "uint8";
    case Type::u16:
      return "uint16";
    case Type::u32:
      return "uint32";
    case Type::u64:
      return "uint64";
    case Type::boolean:
      return "bool";
    case Type::other:
      return "other";
  }
  return "other";
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace estrain::h5
