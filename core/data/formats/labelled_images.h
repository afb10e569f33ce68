#pragma once
// Labelled images of one size. Several formats share this code: the Dataset of transformed images, and the scan of
// everything but the pixels. Each file is scanned separately: a faulty file does not hide the next file.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/formats/dataset.h"
#include "core/data/formats/format.h"
#include "core/data/pixels/image_source.h"
#include "core/data/pixels/image_transform.h"

namespace estrain::data {

class ImageDataset : public Dataset {
 public:
  // Throws Fault::spec if the transforms do not fit the images.
  ImageDataset(std::unique_ptr<ImageSource> source, const spec::DataSection& section)
      : source_(std::move(source)), transform_(source_->layout(), section) {}

  int64_t size() const override { return source_->size(); }
  SampleShape shape() const override { return transform_.shape(); }
  int64_t classes() const override { return source_->classes(); }
  std::vector<int64_t> labels() const override {
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < source_->size(); ++i) labels.push_back(source_->label(i));
    return labels;
  }

  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override {
    thread_local std::vector<std::byte> scratch;
    transform_.apply(source_->pixels(index, scratch), draw, reinterpret_cast<float*>(out_input));
    *out_target = source_->label(index);
  }

 private:
  std::unique_ptr<ImageSource> source_;
  ImageTransform transform_;
};

struct ImageTables {
  std::unique_ptr<ImageTable> train, test;  // test: null if the section names no test data
};

// The data sets of the tables. Without request.classes, the training labels tell the number of classes.
DataPair open_images(ImageTables tables, const DataRequest& request);

// A LabelledFile is corresponding labels and images, in one file or two.
struct LabelledFile {
  std::string label_source;  // for messages: the file, or the file and the dataset
  std::optional<int64_t> images;
  std::optional<std::vector<int64_t>> labels;
};

// A ScannedSet is the training or the test set. A mistake in a file is a finding; the readable parts are kept.
struct ScannedSet {
  std::string name;                   // "training", "test"
  std::optional<ImageLayout> layout;  // as stored
  std::vector<LabelledFile> files;
};

// A FixedClasses is the number of classes fixed by a format: {"CIFAR-10", 10}.
struct FixedClasses {
  std::string source;
  int64_t classes;
};

// Checks what concerns several files: labels, counts and transforms. `sets`: the training set, and the test set if the
// section names a test set.
void scan_images(DataScan& scan, const std::vector<ScannedSet>& sets, const DataRequest& request,
                 const std::optional<FixedClasses>& fixed = std::nullopt);

// Checks whether the transforms fit the images of the sets, and make samples of equal shape.
void check_shapes(const std::vector<ScannedSet>& sets, const spec::DataSection& section,
                  std::vector<Finding>& findings);

// Adds the finding for a file: the content as described by `body`, or why the file is unreadable.
template <typename Body>
void note_file(std::vector<Finding>& findings, const std::string& path, Body body) {
  try {
    findings.push_back(Finding::fine("data", path + ": " + body()));
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
  }
}

// "[3, 32, 32]"
std::string text_of(const ImageLayout& layout);

}  // namespace estrain::data
