#pragma once
// The names and types in the state_dict of a user's model, for all forms of models: modules by the dotted names given
// by Python, and the types of tensors that a run's state can hold.

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>

namespace estrain::model {

// Splits "a.b.weight" into the module and the rest of the name.
std::pair<std::string, std::string> split_name(const std::string& name);

// Returns whether `name` is a module's or tensor's name in a state_dict, and fit for a checkpoint.
bool is_sound_name(const std::string& name);

// Returns the module below `root` with the dotted name `path`. Makes missing modules on the path. "" is `root` itself.
torch::nn::Module& module_at(torch::nn::Module& root, const std::string& path);

// Throw Fault::mismatch for a type that the state cannot hold. `what` names the tensor: "net.pt2: parameter fc.weight".
void require_parameter_type(const std::string& what, c10::ScalarType type);
bool is_buffer_type(c10::ScalarType type);
void require_buffer_type(const std::string& what, c10::ScalarType type);

}  // namespace estrain::model
