#pragma once
// The strict comparison of what a file holds with what a model wants, by name.

#include <string>
#include <vector>

#include "core/checkpoint/state_layout.h"

namespace estrain::checkpoint {

struct ArrayForm {
  std::string path;   // "/model/fc.weight"
  std::string dtype;  // "float32"
  std::vector<int64_t> shape;
  std::string tied_to;  // path of the array it is a second name of, or empty
};

// Tensors and aliases of a layout, by path.
std::vector<ArrayForm> forms_of(const StateLayout& layout);

// Throws Fault::mismatch that names every array of another form, missing or superfluous (the first few of each, and how
// many more).
void require_same_arrays(const std::vector<ArrayForm>& wanted, const std::vector<ArrayForm>& found);

}  // namespace estrain::checkpoint
