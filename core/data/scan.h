#pragma once
// Reads everything in a job's data that can be wrong, before the job starts, and reports all mistakes: unreadable
// files, headers and sizes, every label, transforms. open() (dataset.h) refuses the same files, but stops at the
// first.
//
// The cost is decompression plus one pass over labels, tokens and the first part of a text; pixels are checked only if
// compressed (scanned_photos.h).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/finding.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

struct DataScan {
  std::vector<Finding> findings;      // one for each file, then those that concern several
  std::vector<int64_t> stored_shape;  // [channels, height, width] of training images as stored, of photos for the
                                      // model; empty: unknown, or text
  int64_t train_samples = 0;          // 0: unknown
  int64_t classes = 0;                // number of classes of labels; 0: unknown

  bool fine() const;  // no error among the findings
};

// text_context, classes, arrays: as for open(). A mistake in the files is a finding, not an exception.
DataScan scan(const spec::DataSection& section, int64_t text_context, std::optional<int64_t> classes = std::nullopt,
              const std::vector<std::string>& arrays = {});

}  // namespace estrain::data
