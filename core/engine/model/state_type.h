#pragma once
// The types of tensors of a user's model that a run's state can hold, for all forms of models.

#include <c10/core/ScalarType.h>

#include <string>

namespace estrain::model {

// Throw Fault::mismatch for a type that the state cannot hold. `what` names the tensor: "net.pt2: parameter fc.weight".
void require_parameter_type(const std::string& what, c10::ScalarType type);
bool is_buffer_type(c10::ScalarType type);
void require_buffer_type(const std::string& what, c10::ScalarType type);

}  // namespace estrain::model
