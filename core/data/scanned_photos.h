#pragma once
// Photos (photos.h) as a scan (scan.h) reads them: lists, labels, and every file's header and end; of a set of up to
// most_bytes_decoded, every pixel. Files are looked at by several threads; what is found stands in their order.

#include <optional>
#include <vector>

#include "core/base/finding.h"
#include "core/data/scanned_files.h"
#include "core/spec/job_spec.h"

namespace estrain::data {

constexpr uint64_t most_bytes_decoded = uint64_t{256} << 20;

// The training set, and the test set where the spec names one; without a layout, as images differ in size. Findings
// name the first ten files that are wrong and the number of the others.
std::vector<ScannedSet> scan_photos(const spec::DataSection& section, std::vector<Finding>& findings);

// The same of VOC's pictures (voc.h), and every annotation. Returns the number of training samples; 0: unknown.
int64_t scan_voc(const spec::DataSection& section, std::vector<Finding>& findings);

}  // namespace estrain::data
