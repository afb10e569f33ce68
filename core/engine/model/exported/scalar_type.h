#pragma once

#include <c10/core/ScalarType.h>

#include "core/formats/program/program.h"

namespace estrain::model {

// Returns LibTorch's name of a program's element type.
c10::ScalarType scalar_type(program::ScalarType type);

}  // namespace estrain::model
