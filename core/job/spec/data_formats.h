#pragma once
// The table of the data formats: one row for each value of data.format, with everything that a spec knows of the
// format. The code that reads the files of a format has its own row in core/data/format_table.cpp.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/job/spec/job_spec.h"

namespace estrain::spec {

enum class Samples {
  images,  // all stored images have one size
  photos,  // every image has a size of its own: data.resize or data.crop sets the size that the model sees
  tokens,  // sequences for a language model
  any,     // the user's code decides
};

struct DataFormatTraits {
  DataFormat format;
  std::string_view name;
  Samples samples = Samples::images;
  bool is_made = false;               // the samples are made, and the format has no files
  bool is_code = false;               // data.file names the user's code in Python, and the format has no data.path
  bool has_test_path = false;         // data.test_path names the test set
  bool has_holdout = false;           // data.holdout may keep samples of the training set for evaluation
  bool is_for_users_models = false;   // no built-in model takes the samples
  std::array<int64_t, 3> shape = {};  // [channels, height, width] of every image; zeros: the files tell
  int64_t classes = 0;                // the labels or tokens are below this; 0: the files or the spec tell
  const char* starter_model = "";     // [model] of a starter spec (starter.h)
  std::string (*starter_keys)(const DataSection&) = nullptr;  // returns the last lines of [data] of a starter spec

  // Whether only the files tell the size of the images.
  bool has_shape_in_files() const { return samples == Samples::images && !is_made && shape[0] == 0; }
};

// The rows in the order of documentation.
std::span<const DataFormatTraits> data_formats();

// The row of a format. Throws Fault::bug if the format has no row.
const DataFormatTraits& traits_of(DataFormat format);

// The names of the formats for which `condition` holds, in the order of the rows.
template <typename Condition>
std::vector<std::string> data_formats_with(Condition condition) {
  std::vector<std::string> names;
  for (const DataFormatTraits& row : data_formats())
    if (condition(row)) names.emplace_back(row.name);
  return names;
}

}  // namespace estrain::spec
