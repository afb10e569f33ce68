#pragma once
// A pinned operation as named fields: everything that determines the operation's possible algorithms. Different shapes
// have different fields.

#include <map>
#include <string>

#include "kernels/pinned/convolution.h"
#include "kernels/pinned/product.h"

namespace estrain::kernels::pinned {

// Made of letters, digits, '_' and '-': {"input", "8x3x224x224"} (a volume has five sizes), {"a", "n64-4096"} (not
// transposed, rows 64 elements apart, matrices 4096).
using Fields = std::map<std::string, std::string>;

std::string operation_of(const ProductProblem& product);          // "product"
std::string operation_of(const ConvolutionProblem& convolution);  // "convolution_forward", …
Fields fields_of(const ProductProblem& product);
Fields fields_of(const ConvolutionProblem& convolution);

}  // namespace estrain::kernels::pinned
