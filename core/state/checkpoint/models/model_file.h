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
// Or the file is the index of such files, model.safetensors.index.json.
//
// Strict, if nothing else is said: the file must have every parameter and buffer of the model, including tied names,
// with the same shape, and no more. Numbers of another type (bfloat16, half, double, integers) become the model's type
// as by load_state_dict.

#include <string>
#include <vector>

#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

struct FirstWeights {
  std::string path;
  // Patterns of fnmatch(3) for the model's names that are taken from the file; "!…" leaves names out. All other tensors
  // keep their values, and the file may have more. Empty: strict.
  std::vector<std::string> match = {};
  // "A=B": a name that begins with A in the file begins with B in the model. "A" stands for "A=".
  std::vector<std::string> prefix = {};
};

// What came from a file.
struct TakenWeights {
  size_t tensors = 0;
  std::vector<std::string> kept = {};  // the model's tensors that kept their values
  std::vector<std::string> left = {};  // arrays that were left in the file

  std::string words() const;
};

// Fills the parameters and buffers of a copy of the state. Throws Fault::mismatch naming all arrays that are missing,
// superfluous or different in form, Fault::spec for a pattern without a name, Fault::corrupt for a damaged file,
// Fault::io.
TakenWeights read_model(const FirstWeights& from, const StateLayout& layout, std::byte* state);

}  // namespace estrain::checkpoint
