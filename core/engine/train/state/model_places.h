#pragma once
// The places of the model's parameters and buffers in a copy of the state. Parameters come first, then buffers, both in
// state_dict order, tied tensors once. `base`: the start of the copy.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/engine/model/model.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::train {

// Elements [begin, begin + size) of a parameter.
struct ParameterPiece {
  size_t parameter, begin, size;
};

// A large matrix may be a table of embeddings, of which a step changes a few rows (shared/row_marks.h).
inline bool may_be_table(at::IntArrayRef sizes) {
  constexpr int64_t least_elements = int64_t{1} << 18;
  return sizes.size() == 2 && sizes[0] * sizes[1] >= least_elements;
}

class ModelPlaces {
 public:
  // Appends the places to `layout`. Throws Fault::spec for a buffer of a type that a checkpoint cannot hold.
  ModelPlaces(const model::NamedTensors& tensors, checkpoint::StateLayout& layout);

  size_t num_parameters() const { return parameters_.size(); }
  size_t elements(size_t i) const { return parameters_[i].elements; }  // of parameter i
  float* parameter(std::byte* base, size_t i) const { return reinterpret_cast<float*>(base + parameters_[i].offset); }
  float* parameters(std::byte* base) const { return reinterpret_cast<float*>(base); }
  size_t parameters_bytes() const { return parameters_bytes_; }
  // Returns the elements from the start of a gradient slot, laid out like the parameters, to parameter i's gradient.
  size_t gradient_offset(size_t i) const { return parameters_[i].offset / sizeof(float); }
  // Rows of a parameter that may be a table; and where a worker's marks of the rows begin, among row_mark_words() words
  // (shared/row_marks.h).
  struct TableRows {
    size_t rows = 0;  // 0: no table
    size_t marks = 0;
  };
  const TableRows& table(size_t i) const { return parameters_[i].table; }
  size_t row_mark_words() const { return row_mark_words_; }

  size_t num_buffers() const { return buffers_.size(); }
  std::byte* buffer(std::byte* base, size_t i) const { return base + buffers_at_ + buffers_[i].offset; }
  size_t buffer_bytes(size_t i) const { return buffers_[i].bytes; }
  size_t buffer_offset(size_t i) const { return buffers_[i].offset; }  // from the start of all buffers
  std::byte* buffers(std::byte* base) const { return base + buffers_at_; }
  size_t buffers_offset() const { return buffers_at_; }
  size_t buffers_bytes() const { return buffers_bytes_; }

 private:
  struct Parameter {
    uint64_t offset;
    size_t elements;
    TableRows table;
  };
  struct Buffer {
    uint64_t offset;
    size_t bytes;
  };

  std::vector<Parameter> parameters_;
  size_t parameters_bytes_ = 0, row_mark_words_ = 0;
  std::vector<Buffer> buffers_;
  uint64_t buffers_at_ = 0;
  size_t buffers_bytes_ = 0;
};

}  // namespace estrain::train
