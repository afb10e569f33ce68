#pragma once
// Strictly compares the arrays of a file with the arrays of a model, by name.

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

// Tensors and aliases of a layout, by path.
std::vector<ArrayForm> forms_of(const StateLayout& layout);

// Throws Fault::mismatch naming every array that differs in form, is missing or superfluous (the first few of each
// kind, and the number of the rest).
void require_same_arrays(const std::vector<ArrayForm>& wanted, const std::vector<ArrayForm>& found);

}  // namespace estrain::checkpoint
