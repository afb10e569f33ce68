#pragma once
// Modules by the dotted names that Python gives them, for models whose layers are not C++ code.

#include <torch/nn/module.h>

#include <string>
#include <utility>

namespace estrain::model {

// Splits "a.b.weight" into its module and the rest of the name.
std::pair<std::string, std::string> split_name(const std::string& name);

// Whether it is the name of a module or tensor in a state_dict, and can be one in a checkpoint.
bool is_sound_name(const std::string& name);

// The module below `root` with that dotted name, made where it is missing, with those in between; "" is `root` itself.
torch::nn::Module& module_at(torch::nn::Module& root, const std::string& path);

}  // namespace estrain::model
