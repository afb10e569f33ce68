#include "core/engine/model/exported/scalar_type.h"

#include <ATen/core/Tensor.h>

#include "core/base/error.h"

namespace estrain::model {

c10::ScalarType scalar_type(program::ScalarType type) {
  switch (type) {
    case program::ScalarType::u8:
      return at::kByte;
    case program::ScalarType::i8:
      return at::kChar;
    case program::ScalarType::i16:
      return at::kShort;
    case program::ScalarType::i32:
      return at::kInt;
    case program::ScalarType::i64:
      return at::kLong;
    case program::ScalarType::f16:
      return at::kHalf;
    case program::ScalarType::f32:
      return at::kFloat;
    case program::ScalarType::f64:
      return at::kDouble;
    case program::ScalarType::c32:
      return at::kComplexHalf;
    case program::ScalarType::c64:
      return at::kComplexFloat;
    case program::ScalarType::c128:
      return at::kComplexDouble;
    case program::ScalarType::boolean:
      return at::kBool;
    case program::ScalarType::bf16:
      return at::kBFloat16;
  }
  throw Error(Fault::bug, "unknown element type");
}

}  // namespace estrain::model
