#include "core/engine/model/state_type.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"

namespace estrain::model {
namespace {

// Python's: "bfloat16".
std::string name_of(c10::ScalarType type) {
  switch (type) {
    case c10::kDouble:
      return "float64";
    case c10::kHalf:
      return "float16";
    case c10::kLong:
      return "int64";
    case c10::kInt:
      return "int32";
    case c10::kShort:
      return "int16";
    case c10::kChar:
      return "int8";
    default:
      std::string name = c10::toString(type);
      std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
      return name;
  }
}

}  // namespace

void require_parameter_type(const std::string& what, c10::ScalarType type) {
  if (type == c10::kFloat) return;
  throw Error::make(Fault::mismatch, "{} is {}, but must be float32", what, name_of(type))
      .advise("build the module in float32; job.precision = \"bf16\" computes as torch.autocast does");
}

bool is_buffer_type(c10::ScalarType type) {
  constexpr c10::ScalarType kept[] = {c10::kFloat, c10::kDouble, c10::kLong, c10::kInt, c10::kByte, c10::kBool};
  return std::ranges::find(kept, type) != std::end(kept);
}

void require_buffer_type(const std::string& what, c10::ScalarType type) {
  if (is_buffer_type(type)) return;
  throw Error::make(Fault::mismatch,
                    "{} is {}, but a checkpoint can hold only float32, float64, int64, int32, uint8 and bool", what,
                    name_of(type))
      .advise("register it with persistent=False if it is constant, or use another type");
}

}  // namespace estrain::model
