#pragma once
// Strictly compares the arrays of a file with the arrays of a model, by name. Values and the order of the arrays do not
// matter.

#include <string>
#include <vector>

#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

struct ArrayForm {
  std::string path;   // "/model/fc.weight"
  std::string dtype;  // "float32"
  std::vector<int64_t> shape;
  std::string tied_to;  // for a second name: the path of the array; otherwise empty
};

// Returns the tensors of a layout, then its aliases. The target of each alias is a tensor of the layout.
std::vector<ArrayForm> forms_of(const StateLayout& layout);

// `wanted`: the model's arrays; `found`: the file's. Throws Fault::mismatch naming every array that differs in form, is
// missing from the file or superfluous in the file (the first few of each kind, and the number of the rest).
void require_same_arrays(const std::vector<ArrayForm>& wanted, const std::vector<ArrayForm>& found);

}  // namespace estrain::checkpoint
