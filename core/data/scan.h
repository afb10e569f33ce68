#pragma once
// Reads all of a job's data that can be wrong, before the job starts, and tells everything that is: files that cannot
// be read, headers and sizes, every label, transforms. open() (dataset.h) refuses the same files, but stops at the
// first.
//
// Costs what decompression costs, and one pass over labels, tokens and the first part of a text; pixels are looked at
// where they are compressed (scanned_photos.h).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/finding.h"
#include "core/spec/job_spec.h"

namespace estrain::data {

struct DataScan {
  std::vector<Finding> findings;      // a line for each file, then what concerns several of them
  std::vector<int64_t> stored_shape;  // [channels, height, width] of training images as stored, of photos as the model
                                      // sees them; empty: unknown, or text
  int64_t train_samples = 0;          // 0: unknown
  int64_t classes = 0;                // that labels may have; 0: unknown

  bool fine() const;  // no error among the findings
};

// text_context, classes, arrays: as for open(). What is wrong with the files is a finding, not an exception.
DataScan scan(const spec::DataSection& section, int64_t text_context, std::optional<int64_t> classes = std::nullopt,
              const std::vector<std::string>& arrays = {});

}  // namespace estrain::data
