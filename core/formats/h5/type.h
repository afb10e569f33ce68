#pragma once
// The element types of HDF5 datasets that estrain knows: four that it writes, and others that it reads by conversion.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace estrain::h5 {

enum class Type : uint8_t { f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean, other };

// Bytes of one element in memory; 0 for `other`.
size_t type_size(Type type);
// numpy's name: "float32", "int64", …; "other".
std::string_view type_name(Type type);

// "[3, 32, 32]"; "[]" for a scalar.
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace estrain::h5
