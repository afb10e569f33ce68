#pragma once
// A Dataset is a set of samples for training or evaluation.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/files/data_files.h"
#include "core/data/sampling/augmentation.h"
#include "core/data/sampling/sample_shape.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

// A SampleRun lists samples to read one after another into consecutive places.
struct SampleRun {
  std::span<const int64_t> indices;
  std::function<SampleDraw(int64_t index, size_t place)> draw;  // place: in `indices`
  std::vector<std::byte*> out;         // the first sample's place in the input, or in each of several arrays
  int64_t* targets = nullptr;          // of the first sample
  std::function<bool()> is_abandoned;  // whether the remaining samples are no longer needed
  std::span<const int64_t> lengths{};  // of each array in the mini-batch, where some are ragged
};

// Thread-safe: any number of readers may call read() concurrently.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual SampleShape shape() const = 0;
  // Targets are in [0, classes()). For text: the vocabulary of 256 bytes. 0: unknown, for data in Python.
  virtual int64_t classes() const = 0;

  // The class of each sample; empty if the classes are not known without reading the samples.
  virtual std::vector<int64_t> labels() const { return {}; }
  // The number of a sample in the data as stored: another one than `index` where some samples are kept for evaluation.
  virtual int64_t stored_number(int64_t index) const { return index; }
  virtual int64_t stored() const { return size(); }  // samples as stored

  // Where the shape has ragged arrays: the length of the sample, the sum over its ragged arrays; and the length of each
  // array in a mini-batch of these samples, 0 for an array that is not ragged.
  virtual int64_t length(int64_t) const { return 0; }
  virtual std::vector<int64_t> lengths_of(std::span<const int64_t>) const { return {}; }

  // Writes shape().input_bytes() bytes (float32, or int64 for tokens) and shape().targets() targets of one sample. 0 <=
  // index < size(). A sample depends only on (index, draw): the same bits on every machine.
  virtual void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const = 0;
  // Takes the place of read() where the shape has several arrays: writes the sample's part of the i-th array to out[i].
  virtual void read_fields(int64_t index, const SampleDraw& draw, std::span<std::byte* const> out) const;
  // Reads the run's samples by read() or read_fields().
  virtual void read_run(const SampleRun& run) const;
};

class BadSamples;  // reading/skip_bad.h

struct DataPair {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;  // null if the spec names no test data: text with holdout = 0, idx or hdf5 without
                                  // test files
  std::vector<DataFile> files{};  // the files of both, for identity.h; a format adds files found while opening
  // data.sampler = "weighted": the weight of each training sample.
  std::vector<double> weights{};
  std::shared_ptr<BadSamples> bad{};  // data.skip_bad: the samples left out; null: none may be
  // Messages about the data, for a run to show once: "train: 3 files are left out: …".
  std::vector<std::string> notes{};
};

// Opens the data of `section` and checks everything that does not need reading every image: files exist and are
// complete, each image has one label, every label is in range, transforms fit the images, training and test samples
// have the same shape. The cost is mainly decompression. Uses no global state, and can run in a separate thread while
// libraries load.
//
//   text_context  tokens of a sample, for text
//   seed          of the job: makes synthetic data
//   classes       the model's number of classes, where the spec has the number; default: the data's number
//   arrays        names of the arrays that the model takes of an hdf5 file; empty: the file's images and labels
//
// Throws Fault::io (missing file), Fault::corrupt (truncated, wrong format, a label out of range), Fault::spec (keys
// that do not fit the data), Fault::mismatch (training and test data differ in shape).
DataPair open(const spec::DataSection& section, int64_t text_context, uint64_t seed,
              std::optional<int64_t> classes = std::nullopt, const std::vector<std::string>& arrays = {});

}  // namespace estrain::data
