#pragma once
// Converts between Type and HDF5's type identifiers. Internal to this folder.

#include <cstdint>

#include "core/formats/h5/type.h"

namespace estrain::h5 {

int64_t native_type(Type type);  // H5T_NATIVE_…; throws Fault::bug for `other`
Type type_of(int64_t datatype);  // by class, size and sign; ignores byte order

}  // namespace estrain::h5
