#pragma once
// Modules by the dotted names given by Python, for models with layers outside C++ code.

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

}  // namespace estrain::model
