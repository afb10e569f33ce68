#pragma once
// Converts the elements of a state_dict to the types of a model, as torch's Tensor.copy_ does.

#include <string_view>

#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

// Tells whether elements of this type can be converted: by its name in array_match.h, or by safetensors' word ("BF16").
bool is_convertible(std::string_view type);

// `out` has room for `count` elements. The type is convertible.
void convert_elements(std::string_view type, const std::byte* in, uint64_t count, DType as, std::byte* out);

}  // namespace estrain::checkpoint
