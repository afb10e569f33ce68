#pragma once
// The first NaN or infinity of a step: where it was seen, and the same in words.
//
// "First" does not depend on the placement: ESTs are asked in the order of their virtual ranks. In an EST, the tensor
// counts whose gradient the backward pass completed first, the tensor nearest to the loss.

#include <cstdint>
#include <span>
#include <string>

namespace estrain::comm {

struct Nonfinite {
  enum class Where : uint32_t {
    nowhere,   // all is finite
    gradient,  // the gradient of `tensor` in the EST `rank`
    loss,      // the loss of the EST `rank`, whose gradients are finite
    norm,      // the norm of all gradients: the gradients of the ESTs are finite
    update,    // the result of the update for `tensor`: the ESTs' gradients are finite
    weight,    // no target counts in any EST (train.weight = "tokens")
    unknown,   // nothing was found when the step was looked at again
  };
  Where where = Where::nowhere;
  float value = 0;  // the value found: NaN, or an infinity
  float loss = 0;   // of the EST `rank`
  int64_t rank = -1;
  int64_t tensor = -1;  // the tensor's place among the job's parameters
};

// Returns "the gradient of fc2.weight is NaN (virtual rank 3; its loss is inf)". `names`: the parameters' names first.
std::string in_words(const Nonfinite& found, std::span<const std::string> names);

}  // namespace estrain::comm
