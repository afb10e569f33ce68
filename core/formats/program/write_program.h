#pragma once
// New weights for an exported program: the same file, byte for byte, but for the elements of parameters and buffers and
// the checksums over these elements. torch.export.load reads the new file as it read the old file.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/formats/program/program.h"

namespace estrain::program {

// Writes a tensor's elements to `out` in C order, tensor.bytes.size() bytes. Called once for each parameter and each
// buffer of the program; for tied tensors, called for the first name.
using Fill = std::function<void(const StoredTensor& tensor, std::byte* out)>;

// Throws as read_program(), and whatever `fill` throws.
std::vector<std::byte> with_weights(std::span<const std::byte> file, const std::string& path, const Fill& fill);

}  // namespace estrain::program
