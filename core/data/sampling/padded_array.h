#pragma once
// Named arrays as mini-batches have them, whatever the format of the data.
//
// Samples of a ragged array have different lengths. A mini-batch of such an array is [samples, longest sample, further
// dimensions]: shorter samples are filled at the end with the value of data.pad_values, and the longest sample's
// length, at least 1, is rounded up to a multiple of data.pad_multiple. A model may also ask for two arrays derived
// from the ragged array NAME, unless the data have arrays of these names:
//
//   NAME_lengths    int64 [samples]: the length of each sample
//   NAME_mask       bool [samples, longest sample]: true where a sample has a row

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/data/sampling/sample_shape.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

struct PaddedArray {
  enum class Part { values, lengths, mask };  // lengths and masks are derived from a ragged array

  SampleShape::Field field;
  Part part = Part::values;
  std::vector<std::byte> pad{};  // an element of a ragged array

  // Writes a sample's part of the array for a mini-batch of the length `length`. The sample has `rows` rows at `values`
  // (1 where the array is not ragged); a derived array has no values. Returns the end.
  std::byte* write(const std::byte* values, int64_t rows, int64_t length, std::byte* out) const;
};

// Gives each ragged array the value of data.pad_values that fills the ends of shorter samples. Throws Fault::spec for a
// value that the array's type does not have, for a name that is no ragged array, and for keys of ragged arrays where
// none is. `source`: the data, for messages.
void take_pads(const std::string& source, const spec::DataSection& section, const std::vector<PaddedArray*>& arrays);

// The length of a mini-batch whose longest sample has `longest` rows.
int64_t padded_length(int64_t longest, const spec::DataSection& section);

struct DerivedArray {
  PaddedArray array;
  std::string source;  // the name of the ragged array
};
// Returns the array NAME_lengths or NAME_mask, if `is_ragged` says that NAME is a ragged array; else nothing.
std::optional<DerivedArray> derived_array(const std::string& name,
                                          const std::function<bool(const std::string&)>& is_ragged);
// The names of the arrays derived from the ragged array `name`.
std::vector<std::string> derived_names(const std::string& name);

// Throws Fault::spec naming a key of `section` for ragged arrays.
void refuse_padding(const spec::DataSection& section);

// Throws Fault::mismatch naming the first array with a different type or shape. Ragged arrays may differ in length.
void require_same_arrays(const SampleShape& train, const SampleShape& test);

// "ids int64 [up to 128], mask uint8 [128]"
std::string describe_arrays(const SampleShape& shape);

}  // namespace estrain::data
