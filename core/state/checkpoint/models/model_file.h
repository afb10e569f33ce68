#pragma once
// Initial weights from a file: model.init = "resnet18.h5".
//
// The file is an estrain checkpoint (its optimizer and ESTs are ignored), or any HDF5 file with a PyTorch state_dict by
// name: parameters in /model and buffers in /buffers, or everything in /model, or everything at the root:
//
//   with h5py.File("resnet18.h5", "w") as file:
//       for name, tensor in model.state_dict().items():
//           file["model/" + name] = tensor.numpy()
//
// Or the file is a safetensors file (safetensors.h) with the state_dict's names, and with one of a tied weight's names
// or all, since safetensors.torch.save_model omits all but one.
//
// Strict: the file must have every parameter and buffer of the model, including tied names, with the same shape, and no
// more. Numbers of another type (bfloat16, half, double, integers) become the model's type as by load_state_dict.

#include <string>

#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

// Fills the parameters and buffers of a copy of the state. Throws Fault::mismatch naming all arrays that are missing,
// superfluous or different in form, Fault::corrupt for a damaged file, Fault::io.
void read_model(const std::string& path, const StateLayout& layout, std::byte* state);

}  // namespace estrain::checkpoint
