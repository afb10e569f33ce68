#include "core/engine/model/exported/scalar_type.h"

#include <ATen/core/Tensor.h>

#include "core/base/error.h"

namespace estrain::model {

c10::ScalarType scalar_type(program::Type type) {
  switch (type) {
    case program::Type::u8:
      return at::kByte;
    case program::Type::i8:
      return at::kChar;
    case program::Type::i16:
      return at::kShort;
    case program::Type::i32:
      return at::kInt;
    case program::Type::i64:
      return at::kLong;
    case program::Type::f16:
      return at::kHalf;
    case program::Type::f32:
      return at::kFloat;
    case program::Type::f64:
      return at::kDouble;
    case program::Type::c32:
      return at::kComplexHalf;
    case program::Type::c64:
      return at::kComplexFloat;
    case program::Type::c128:
      return at::kComplexDouble;
    case program::Type::boolean:
      return at::kBool;
    case program::Type::bf16:
      return at::kBFloat16;
  }
  throw Error(Fault::bug, "unknown element type");
}

}  // namespace estrain::model
