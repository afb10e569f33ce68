#pragma once
// A Format is the interface of a data format: how files are named, opened for training and evaluation, scanned by
// `estrain check`, and recognised by `estrain init`. core/data/format_table.cpp has a row for each format.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/finding.h"
#include "core/data/files/data_files.h"
#include "core/data/formats/dataset.h"
#include "core/formats/program/program.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

// A DataRequest is the parts of a job needed to open and scan the data. The fields have the meaning of open()'s
// parameters (dataset.h).
struct DataRequest {
  const spec::DataSection& section;
  int64_t text_context = 0;
  uint64_t seed = 0;  // scanning does not need the seed
  std::optional<int64_t> classes;
  const std::vector<std::string>& arrays;
};

struct DataScan {
  std::vector<Finding> findings;      // a finding for each file, then the findings about several files
  std::vector<int64_t> stored_shape;  // [channels, height, width] of training images; empty: unknown, or text
  bool is_shape_of_model = false;     // stored_shape is the shape seen by the model, as for photos; otherwise the
                                      // shape before the transforms
  int64_t train_samples = 0;          // 0: unknown
  int64_t classes = 0;                // number of classes of labels; 0: unknown

  bool fine() const {  // no error among the findings
    return std::ranges::none_of(findings, [](const Finding& found) { return found.severity == Severity::error; });
  }
};

// Where a recognised data set is: data.path and data.test_path.
struct DataPlace {
  std::string path, test_path = "";
};

using ModelInputs = std::vector<program::UserInput>;

class Format {
 public:
  virtual ~Format() = default;

  // The files named by a [data] section, in a fixed order, training before test. Throws Fault::spec where a needed key
  // is empty.
  virtual std::vector<FileName> file_names(const spec::DataSection& section) const = 0;
  // Opens the data. `files`: the files of file_names(), opened. Throws as data::open() (dataset.h).
  virtual DataPair open(const DataRequest& request, const std::vector<DataFile>& files) const = 0;
  // Scans the data (format_table.h), and adds what is found to `scan`. A mistake in a file is a finding, not an
  // exception.
  virtual void scan(const DataRequest& request, DataScan& scan) const = 0;
  // Returns the names of the data's arrays for a user's model. `inputs`: the inputs of the model's programs; nothing
  // for a module in Python, since the inputs are known only once the module is built. hdf5 returns nothing if the model
  // takes pictures and classes, and all arrays of the file at `path` where `inputs` is nothing. Other formats return
  // the names of `inputs`; of these formats only python reads DataRequest::arrays.
  virtual std::vector<std::string> arrays_for(const std::string& path, const std::optional<ModelInputs>& inputs) const;

  // Recognises a data set in a folder by the format's own names of files. Returns nothing for another folder.
  virtual std::optional<DataPlace> in_folder(const std::filesystem::path&) const { return std::nullopt; }
  // Whether a folder is a set of samples in this format. Two sets, train/ and val/ or test/, are a data set.
  virtual bool is_set(const std::filesystem::path&) const { return false; }
  // Whether a file is in this format, by the name and the first 64 KiB.
  virtual bool is_file(const std::filesystem::path&, std::string_view) const { return false; }
};

inline std::vector<std::string> names_of(const ModelInputs& inputs) {
  std::vector<std::string> names;
  for (const program::UserInput& input : inputs) names.push_back(input.name);
  return names;
}

inline std::vector<std::string> Format::arrays_for(const std::string&, const std::optional<ModelInputs>& inputs) const {
  return inputs ? names_of(*inputs) : std::vector<std::string>();
}

// Returns data.path as "training data", and data.test_path, unless empty, as "test data". FileName::kind and endings
// are as in `like`. Throws Fault::spec with the message `missing` where data.path is empty.
inline std::vector<FileName> one_or_two(const spec::DataSection& section, const FileName& like, const char* missing) {
  if (section.path.empty()) throw Error(Fault::spec, missing);
  std::vector<FileName> names(section.test_path.empty() ? 1 : 2, like);
  names[0].what = "training data", names[0].path = section.path;
  if (names.size() > 1) names[1].what = "test data", names[1].path = section.test_path;
  return names;
}

// The finding for an unusable file.
inline Finding unreadable(const Error& error) {
  const char* advice = "check the paths in [data], and that this user may read the files";
  return Finding::user_error("data", error.message(), error.advice().empty() ? advice : error.advice());
}

}  // namespace estrain::data
