#pragma once
// Safetensors files: a state_dict in the format of Python's safetensors and transformers.
//
//   8 bytes    n, little-endian: length of the header
//   n bytes    JSON: {"<name>": {"dtype": "F32", "shape": [10, 512], "data_offsets": [begin, end]}, …,
//              "__metadata__": {"format": "pt"}}; spaces may follow
//   the rest   the elements, in C order, little-endian, at offsets counted from here
//
// A file is accepted only if every byte of the rest belongs to exactly one tensor and each tensor has the size of its
// type and shape, as the format demands. No length or offset is trusted before this check.

#include <string>
#include <utility>
#include <vector>

#include "core/base/files/unique_fd.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

struct Safetensor {
  std::string name;
  std::string dtype;  // array_match.h's name: "float32"; for types that no state has, the format's word: "BF16"
  std::vector<int64_t> shape;
  uint64_t offset;  // in the file
  uint64_t bytes;
};

class SafetensorsFile {
 public:
  // Throws Fault::corrupt, naming the tensor, for another kind of file or a damaged file; Fault::io.
  static SafetensorsFile open(const std::string& path);

  // Sorted by offset.
  const std::vector<Safetensor>& tensors() const { return tensors_; }
  // Reads the elements of tensors()[tensor]. Throws Fault::corrupt if the file became shorter meanwhile, Fault::io.
  void read(size_t tensor, std::byte* out) const;
  // Reads `bytes` bytes of the elements, from byte `first` on. Throws as read().
  void read_part(size_t tensor, uint64_t first, uint64_t bytes, std::byte* out) const;

 private:
  SafetensorsFile(UniqueFd fd, std::vector<Safetensor> tensors) : fd_(std::move(fd)), tensors_(std::move(tensors)) {}

  UniqueFd fd_;
  std::vector<Safetensor> tensors_;
};

// Tells whether a file is meant as a safetensors file, by its name or first bytes. Throws Fault::io.
bool is_safetensors(const std::string& path);

// One tensor of a file to be written.
struct SafetensorForm {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
};

// Returns the beginning of a file, up to the elements, for tensors whose elements follow in this order without gaps.
// Wider types must come first, so that every tensor starts at a multiple of its element's size.
std::string safetensors_header(const std::vector<SafetensorForm>& tensors,
                               const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace estrain::checkpoint
