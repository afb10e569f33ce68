#pragma once
// The element types of HDF5 datasets known to estrain: four written types, and further types read by conversion.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::h5 {

enum class Type : uint8_t { f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean, other };

// Returns the bytes of an element in memory; 0 for `other`.
size_t type_size(Type type);
// Returns numpy's name: "float32", "int64", …; "other".
std::string_view type_name(Type type);

// "[3, 32, 32]"; "[]" for a scalar.
std::string shape_text(const std::vector<int64_t>& shape);

// Conversions between Type and HDF5's type identifiers, internal to this folder.
int64_t native_type(Type type);  // H5T_NATIVE_…; throws Fault::bug for `other`
Type type_of(int64_t datatype);  // by class, size and sign; ignores byte order

}  // namespace estrain::h5
