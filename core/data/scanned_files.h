#pragma once
// The files of labelled images as a scan (scan.h) reads them: everything but the pixels, each file by itself, so that
// one that is wrong does not hide the next.
//
// What is wrong with a file is a finding; what could be read of it in spite of that is returned.

#include <optional>
#include <string>
#include <vector>

#include "core/base/finding.h"
#include "core/data/image_source.h"
#include "core/spec/job_spec.h"

namespace estrain::data {

// The line of a file that cannot be used.
Finding unreadable(const Error& error);

// Labels and images that belong together, in one file or two.
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

// The training set, and behind it the test set where the spec names one.
std::vector<ScannedSet> scan_idx(const spec::DataSection& section, std::vector<Finding>& findings);
std::vector<ScannedSet> scan_cifar(const spec::DataSection& section, std::vector<Finding>& findings);
std::vector<ScannedSet> scan_hdf5(const spec::DataSection& section, std::vector<Finding>& findings);

}  // namespace estrain::data
