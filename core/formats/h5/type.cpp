#include "core/formats/h5/type.h"

#include <fmt/ranges.h>
#include <hdf5.h>

#include <string_view>

#include "core/base/error.h"

namespace estrain::h5 {
namespace {

Type integer_type(size_t size, bool is_signed) {
  switch (size) {
    case 1:
      return is_signed ? Type::i8 : Type::u8;
    case 2:
      return is_signed ? Type::i16 : Type::u16;
    case 4:
      return is_signed ? Type::i32 : Type::u32;
    case 8:
      return is_signed ? Type::i64 : Type::u64;
    default:
      return Type::other;
  }
}

// h5py stores numpy's bool as an enumeration of one byte: FALSE = 0, TRUE = 1.
bool is_boolean(hid_t enumeration) {
  int8_t no = -1, yes = -1;
  if (H5Tget_size(enumeration) != 1 || H5Tget_nmembers(enumeration) != 2) return false;
  for (int member = 0; member < 2; ++member) {
    char* name = H5Tget_member_name(enumeration, static_cast<unsigned>(member));
    if (name == nullptr) return false;
    const std::string_view word(name);
    if (word == "FALSE") H5Tget_member_value(enumeration, static_cast<unsigned>(member), &no);
    if (word == "TRUE") H5Tget_member_value(enumeration, static_cast<unsigned>(member), &yes);
    H5free_memory(name);
  }
  return no == 0 && yes == 1;
}

}  // namespace

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

int64_t native_type(Type type) {
  switch (type) {
    case Type::f32:
      return H5T_NATIVE_FLOAT;
    case Type::f64:
      return H5T_NATIVE_DOUBLE;
    case Type::i8:
      return H5T_NATIVE_INT8;
    case Type::i16:
      return H5T_NATIVE_INT16;
    case Type::i32:
      return H5T_NATIVE_INT32;
    case Type::i64:
      return H5T_NATIVE_INT64;
    case Type::u8:
    case Type::boolean:
      return H5T_NATIVE_UINT8;
    case Type::u16:
      return H5T_NATIVE_UINT16;
    case Type::u32:
      return H5T_NATIVE_UINT32;
    case Type::u64:
      return H5T_NATIVE_UINT64;
    case Type::other:
      break;
  }
  throw Error(Fault::bug, "elements of no known type have no form in memory");
}

Type type_of(int64_t datatype) {
  const size_t size = H5Tget_size(datatype);
  switch (H5Tget_class(datatype)) {
    case H5T_INTEGER:
      return integer_type(size, H5Tget_sign(datatype) != H5T_SGN_NONE);
    case H5T_FLOAT:
      return size == 4 ? Type::f32 : size == 8 ? Type::f64 : Type::other;
    case H5T_ENUM:
      return is_boolean(datatype) ? Type::boolean : Type::other;
    default:
      return Type::other;
  }
}

}  // namespace estrain::h5
