#pragma once
// Scans (scan.h) photos (photos.h): lists, labels, and every file's header and end; for a set of up to
// most_bytes_decoded, every pixel. Several threads scan the files; findings are in file order.

#include <optional>
#include <vector>

#include "core/base/finding.h"
#include "core/data/scanned_files.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

constexpr uint64_t most_bytes_decoded = uint64_t{256} << 20;

// The training set, and the test set if the spec names one; without a layout, since image sizes differ. Findings name
// the first ten faulty files and count the others.
std::vector<ScannedSet> scan_photos(const spec::DataSection& section, std::vector<Finding>& findings);

// The same of VOC's pictures (voc.h), and every annotation. Returns the number of training samples; 0: unknown.
int64_t scan_voc(const spec::DataSection& section, std::vector<Finding>& findings);

}  // namespace estrain::data
