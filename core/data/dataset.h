#pragma once
// A set of samples that a job trains on or is evaluated on.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/augmentation.h"
#include "core/data/data_files.h"
#include "core/data/sample_shape.h"
#include "core/spec/job_spec.h"

namespace estrain::data {

// Thread-safe: any number of readers call read() at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual SampleShape shape() const = 0;
  // Targets lie in [0, classes()). Of tokens: the vocabulary, 256 bytes.
  virtual int64_t classes() const = 0;

  // Writes shape().input_bytes() bytes (float32, or int64 for tokens) and shape().targets() targets of one sample.
  // 0 <= index < size(). A sample is a function of (index, draw): the same bits on every machine.
  virtual void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const = 0;
  // In the place of read() where the shape is one of several arrays: writes the sample's part of each to `out`, which
  // has a place for every one.
  virtual void read_fields(int64_t index, const SampleDraw& draw, std::span<std::byte* const> out) const;
};

struct DataPair {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset>
      test;  // null where the spec names none: text with holdout = 0, idx or hdf5 without test files
  std::vector<DataFile> files{};  // that the two were made of: what identity.h looks at
};

// Opens what `section` describes and checks all of it that can be checked without reading every image: that files are
// there and whole, that there is one label for each image and every label is in range, that transforms fit the images,
// that training and test samples have one shape. Costs what decompression costs, else next to nothing; uses no global
// state, so it can run in a thread of its own while other libraries load.
//
//   text_context  tokens of a sample, for text
//   seed          of the job: makes synthetic data
//   classes       the number of classes the model has, where the spec says so; default: what the data has
//   arrays        names of the arrays that the model takes, for an hdf5 file that is none of images and labels
//
// Throws Fault::io (missing), Fault::corrupt (truncated, of another format, a label out of range), Fault::spec (keys
// that do not fit the data), Fault::mismatch (training and test data differ in shape).
DataPair open(const spec::DataSection& section, int64_t text_context, uint64_t seed,
              std::optional<int64_t> classes = std::nullopt, const std::vector<std::string>& arrays = {});

}  // namespace estrain::data
