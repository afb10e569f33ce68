#include "core/data/formats/labelled_images.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/data/formats/holdout.h"
#include "core/job/spec/defaults.h"

namespace estrain::data {
namespace {

using Findings = std::vector<Finding>;

// Labels must be in [0, classes).
struct LabelRange {
  int64_t classes;
  std::string why;
  bool is_known = true;  // false: the number of classes is unknown, and `classes` is the limit
};

LabelRange range_by(const std::string& source, int64_t classes) {
  return {classes, fmt::format("there are {} classes (0 to {}), say {}", classes, classes - 1, source)};
}

LabelRange widest_range() { return {most_classes, fmt::format("there are at most {} classes", most_classes), false}; }

void check_labels(const LabelledFile& file, const LabelRange& range, Findings& findings) {
  const auto outside = [&](int64_t label) { return label < 0 || label >= range.classes; };
  const auto first = std::ranges::find_if(*file.labels, outside);
  if (first == file.labels->end()) return;
  findings.push_back(Finding::user_error(
      "labels",
      fmt::format("{}: {} of {} labels are out of range, the first is {} of sample {}: {}", file.label_source,
                  std::ranges::count_if(*file.labels, outside), file.labels->size(), *first,
                  first - file.labels->begin(), range.why),
      range.is_known ? "correct the labels, or set model.classes above the largest of them" : "correct the labels"));
}

void check_count(const LabelledFile& file, Findings& findings) {
  if (!file.images || !file.labels || *file.images == static_cast<int64_t>(file.labels->size())) return;
  findings.push_back(Finding::user_error(
      "data", fmt::format("{}: {} labels for {} images", file.label_source, file.labels->size(), *file.images),
      "the files do not belong together, or one is truncated"));
}

// All labels of a set. Returns nothing if the labels of a file could not be read.
std::optional<std::vector<int64_t>> all_labels(const ScannedSet& set) {
  std::vector<int64_t> all;
  for (const LabelledFile& file : set.files) {
    if (!file.labels) return std::nullopt;
    all.insert(all.end(), file.labels->begin(), file.labels->end());
  }
  return all;
}

// A class without images is no error, but may mean labels counted from 1.
void check_occurrence(const std::vector<int64_t>& labels, int64_t classes, Findings& findings) {
  if (labels.empty() || classes < 1) return;
  std::vector<bool> occurs(static_cast<size_t>(classes), false);
  for (const int64_t label : labels)
    if (label >= 0 && label < classes) occurs[static_cast<size_t>(label)] = true;
  const auto absent = std::ranges::count(occurs, false);
  if (absent == 0) {
    findings.push_back(Finding::fine("labels", fmt::format("every one of {} classes occurs in training", classes)));
    return;
  }
  const auto first = std::ranges::find(occurs, false) - occurs.begin();
  findings.push_back(Finding::warn(
      "labels", fmt::format("{} of {} classes never occur in training, the first is {}", absent, classes, first),
      first == 0 ? "labels must count from 0" : "lower model.classes if this is not intended"));
}

int64_t images_of(const ScannedSet& set) {
  int64_t images = 0;
  for (const LabelledFile& file : set.files) images += file.images.value_or(0);
  return images;
}

void check_not_empty(const ScannedSet& set, Findings& findings) {
  const bool known = std::ranges::all_of(set.files, [](const LabelledFile& file) { return file.images.has_value(); });
  if (!known || images_of(set) > 0) return;
  findings.push_back(Finding::user_error("data", fmt::format("the {} set is empty", set.name), "use other files"));
}

// The shape of the images for the model. Returns nothing, with a finding, if the transforms do not fit the images.
std::optional<SampleShape> sample_shape(const ScannedSet& set, const spec::DataSection& section, Findings& findings) {
  if (!set.layout) return std::nullopt;
  try {
    return ImageTransform(*set.layout, section).shape();
  } catch (const Error& error) {
    findings.push_back(
        Finding::user_error("transforms", fmt::format("{} images: {}", set.name, error.message()), error.advice()));
    return std::nullopt;
  }
}

std::string text_of(const SampleShape& shape) { return fmt::format("[{}]", fmt::join(shape.dims(), ", ")); }

// The valid range of the files' labels. Returns nothing if the range depends on unreadable labels.
std::optional<LabelRange> label_range(const std::optional<FixedClasses>& fixed,
                                      const std::optional<std::vector<int64_t>>& train,
                                      std::optional<int64_t> model_classes) {
  if (fixed) return range_by(fixed->source, fixed->classes);
  if (model_classes) return range_by("model.classes", *model_classes);
  if (!train || train->empty()) return std::nullopt;
  const int64_t largest = std::ranges::max(*train);
  if (largest >= most_classes) return widest_range();
  return range_by("the training labels", std::max<int64_t>(largest + 1, 1));
}

}  // namespace

DataPair open_images(ImageTables tables, const DataRequest& request) {
  if (request.classes) {
    tables.train->set_classes(*request.classes);
  } else {
    tables.train->take_classes_of_labels();
  }
  if (tables.test) tables.test->set_classes(tables.train->classes());
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < tables.train->size(); ++i) labels.push_back(tables.train->label(i));
  DataPair pair;
  pair.train = std::make_unique<ImageDataset>(std::move(tables.train), request.section);
  if (tables.test) {
    pair.test = std::make_unique<ImageDataset>(std::move(tables.test), request.section);
  } else {
    hold_out(pair, labels, spec::holdout(request.section), request.seed);
  }
  return pair;
}

void check_shapes(const std::vector<ScannedSet>& sets, const spec::DataSection& section,
                  std::vector<Finding>& findings) {
  const std::optional<SampleShape> train = sample_shape(sets.front(), section, findings);
  if (train) findings.push_back(Finding::fine("transforms", "samples of " + text_of(*train)));
  if (sets.size() < 2) return;
  const std::optional<SampleShape> test = sample_shape(sets[1], section, findings);
  if (!train || !test || *train == *test) return;
  findings.push_back(Finding::user_error(
      "transforms", fmt::format("training samples have shape {}, test samples {}", text_of(*train), text_of(*test)),
      "set data.resize or data.crop to give both the same size"));
}

void scan_images(DataScan& scan, const std::vector<ScannedSet>& sets, const DataRequest& request,
                 const std::optional<FixedClasses>& fixed) {
  const ScannedSet& train = sets.front();
  const std::optional<std::vector<int64_t>> train_labels = all_labels(train);
  const std::optional<LabelRange> range = label_range(fixed, train_labels, request.classes);
  for (const ScannedSet& set : sets) {
    for (const LabelledFile& file : set.files) {
      check_count(file, scan.findings);
      if (file.labels && range) check_labels(file, *range, scan.findings);
    }
    check_not_empty(set, scan.findings);
  }
  const bool known = range && range->is_known;
  if (train_labels && known) check_occurrence(*train_labels, range->classes, scan.findings);
  check_shapes(sets, request.section, scan.findings);
  scan.classes = request.classes.value_or(known ? range->classes : 0);
  scan.train_samples = images_of(train);
  if (train_labels && sets.size() == 1) note_held_out(scan, *train_labels, spec::holdout(request.section));
  if (train.layout) scan.stored_shape = {train.layout->channels, train.layout->height, train.layout->width};
}

std::string text_of(const ImageLayout& layout) {
  return fmt::format("[{}, {}, {}]", layout.channels, layout.height, layout.width);
}

}  // namespace estrain::data
