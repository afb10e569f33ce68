#pragma once
// Scans a job's data for every possible mistake, before the job starts, and reports all mistakes: unreadable files,
// headers and sizes, every label, transforms. open() (dataset.h) refuses the same files, but stops at the first
// mistake.
//
// The cost is decompression plus one pass over labels, tokens and the first part of a text; pixels are checked only if
// compressed (photos/photo_scan.h).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/data/formats/format.h"

namespace estrain::data {

// text_context, classes, arrays: as for open(). A mistake in the files is a finding, not an exception.
DataScan scan(const spec::DataSection& section, int64_t text_context, std::optional<int64_t> classes = std::nullopt,
              const std::vector<std::string>& arrays = {});

}  // namespace estrain::data
