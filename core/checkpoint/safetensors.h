#pragma once
// Safetensors files: a state_dict as Python's safetensors and transformers hold it.
//
//   8 bytes    n, little-endian: length of the header
//   n bytes    JSON: {"<name>": {"dtype": "F32", "shape": [10, 512], "data_offsets": [begin, end]}, …,
//              "__metadata__": {"format": "pt"}}; spaces may follow
//   the rest   the elements, in C order, little-endian, at offsets counted from here
//
// A file is read only if every byte of the rest belongs to exactly one tensor and each tensor's bytes are those of its
// type and shape, as the format demands: no length or offset of a file is believed before that.

#include <string>
#include <utility>
#include <vector>

#include "core/base/unique_fd.h"
#include "core/checkpoint/state_layout.h"

namespace estrain::checkpoint {

struct Safetensor {
  std::string name;
  std::string dtype;  // as array_match.h compares it: "float32"; a type that no state has: the format's word, "BF16"
  std::vector<int64_t> shape;
  uint64_t offset;  // in the file
  uint64_t bytes;
};

class SafetensorsFile {
 public:
  // Throws Fault::corrupt for what is no such file, or a damaged one, and says at which tensor; Fault::io.
  static SafetensorsFile open(const std::string& path);

  // By offset.
  const std::vector<Safetensor>& tensors() const { return tensors_; }
  // The elements of tensors()[tensor]. Throws Fault::corrupt where the file became shorter meanwhile, Fault::io.
  void read(size_t tensor, std::byte* out) const;

 private:
  SafetensorsFile(UniqueFd fd, std::vector<Safetensor> tensors) : fd_(std::move(fd)), tensors_(std::move(tensors)) {}

  UniqueFd fd_;
  std::vector<Safetensor> tensors_;
};

// Whether a file is meant to be one: by its name, or by how it begins. Throws Fault::io.
bool is_safetensors(const std::string& path);

// One tensor of a file that is to be written.
struct SafetensorForm {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
};

// The file's beginning, up to the elements, for tensors whose elements follow in this order without gaps. Wider types
// must come first: then every tensor lies on a multiple of its element's size.
std::string safetensors_header(const std::vector<SafetensorForm>& tensors,
                               const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace estrain::checkpoint
