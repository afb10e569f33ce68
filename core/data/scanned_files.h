#pragma once
// Scans (scan.h) the files of labelled images: everything but the pixels, and each file separately, so that a faulty
// one does not hide the next.
//
// A mistake in a file is a finding; the readable parts are returned anyway.

#include <optional>
#include <string>
#include <vector>

#include "core/base/finding.h"
#include "core/data/pixels/image_source.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

// The finding for an unusable file.
Finding unreadable(const Error& error);

// Corresponding labels and images, in one file or two.
struct LabelledFile {
  std::string label_source;  // for messages: the file, or the file and its dataset
  std::optional<int64_t> images;
  std::optional<std::vector<int64_t>> labels;
};

// The training or the test set.
struct ScannedSet {
  std::string name;                   // "training", "test"
  std::optional<ImageLayout> layout;  // as stored
  std::vector<LabelledFile> files;
};

// The training set, followed by the test set if the spec names one.
std::vector<ScannedSet> scan_idx(const spec::DataSection& section, std::vector<Finding>& findings);
std::vector<ScannedSet> scan_cifar(const spec::DataSection& section, std::vector<Finding>& findings);
std::vector<ScannedSet> scan_hdf5(const spec::DataSection& section, std::vector<Finding>& findings);

}  // namespace estrain::data
