#include "core/engine/model/state_dict.h"

#include <doctest/doctest.h>
#include <torch/types.h>

#include <functional>

#include "core/base/error.h"

namespace estrain::model {
namespace {

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::mismatch);
    CHECK(!error.advice().empty());
    return error.message();
  }
  return "";
}

TEST_CASE("types that the state can hold, and others by name") {
  const std::string name = "net.pt2: buffer a.b";
  for (const c10::ScalarType type :
       {torch::kFloat, torch::kDouble, torch::kLong, torch::kInt, torch::kByte, torch::kBool})
    CHECK(refusal([&] { require_buffer_type(name, type); }) == "");
  for (const auto& [type, word] :
       {std::pair(torch::kShort, "int16"), {torch::kHalf, "float16"}, {torch::kBFloat16, "bfloat16"}})
    CHECK(refusal([&, type = type] { require_buffer_type(name, type); }) ==
          name + " is " + word + ", but a checkpoint can hold only float32, float64, int64, int32, uint8 and bool");
  CHECK(refusal([] { require_parameter_type("parameter w", torch::kFloat); }) == "");
  CHECK(refusal([] { require_parameter_type("parameter w", torch::kDouble); }) ==
        "parameter w is float64, but must be float32");
}

}  // namespace
}  // namespace estrain::model
