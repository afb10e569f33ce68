#pragma once
// Files with a PyTorch state_dict: their arrays by name, and how an array becomes a tensor of a model.

#include <functional>
#include <string>
#include <vector>

#include "core/state/checkpoint/state/array_match.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

struct WeightsFile {
  std::vector<ArrayForm> forms;  // `path`: the name in the state_dict
  // Reads an array with the shape of the tensor `as`, converted to the tensor's type as torch's Tensor.copy_ does.
  std::function<void(const std::string& name, const StateTensor& as, std::byte* out)> read;
  // Whether a tied tensor may have only one of its names in the file.
  bool ties_once = false;
};

// Opens a checkpoint, an HDF5 file, a safetensors file, or the index of a safetensors file that was written in parts
// (model.safetensors.index.json, whose parts lie beside it). Throws Fault::corrupt for a damaged file, Fault::mismatch
// for a file that torch.save wrote, Fault::io.
WeightsFile open_weights(const std::string& path);

// Whether torch.save wrote the file, by its first bytes. False for a folder. Throws Fault::io.
bool is_of_torch_save(const std::string& path);

// Whether elements of this type can be converted: by its name in array_match.h, or by safetensors' word ("BF16").
bool is_convertible(std::string_view type);

}  // namespace estrain::checkpoint
