#include "core/data/scan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/data/file_names.h"
#include "core/data/files/data_files.h"
#include "core/data/files/file_bytes.h"
#include "core/data/formats/dataset.h"
#include "core/data/formats/hdf5_arrays.h"
#include "core/data/formats/synthetic.h"
#include "core/data/formats/text.h"
#include "core/data/formats/token_windows.h"
#include "core/data/pixels/image_transform.h"
#include "core/data/scanned_files.h"
#include "core/data/scanned_photos.h"
#include "core/formats/h5/filters.h"

namespace estrain::data {
namespace {

using Findings = std::vector<Finding>;

constexpr size_t kTextBytesLookedAt = size_t{64} << 20;

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

// Nothing if a file's labels could not be read.
std::optional<std::vector<int64_t>> all_labels(const ScannedSet& set) {
  std::vector<int64_t> all;
  for (const LabelledFile& file : set.files) {
    if (!file.labels) return std::nullopt;
    all.insert(all.end(), file.labels->begin(), file.labels->end());
  }
  return all;
}

// A class that never occurs is not an error, but it may mean that labels count from 1.
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

// The shape of the images for the model; nothing, with a finding, if the transforms do not fit them.
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

void check_shapes(const std::vector<ScannedSet>& sets, const spec::DataSection& section, Findings& findings) {
  const std::optional<SampleShape> train = sample_shape(sets.front(), section, findings);
  if (train) findings.push_back(Finding::fine("transforms", "samples of " + text_of(*train)));
  if (sets.size() < 2) return;
  const std::optional<SampleShape> test = sample_shape(sets[1], section, findings);
  if (!train || !test || *train == *test) return;
  findings.push_back(Finding::user_error(
      "transforms", fmt::format("training samples have shape {}, test samples {}", text_of(*train), text_of(*test)),
      "set data.resize or data.crop to give both the same size"));
}

// The valid range of the files' labels; nothing if it depends on labels that cannot be read.
std::optional<LabelRange> label_range(const spec::DataSection& section,
                                      const std::optional<std::vector<int64_t>>& train,
                                      std::optional<int64_t> model_classes) {
  if (section.format == spec::DataFormat::cifar10) return range_by("CIFAR-10", 10);
  if (section.format == spec::DataFormat::cifar100) return range_by("CIFAR-100", 100);
  if (model_classes) return range_by("model.classes", *model_classes);
  if (!train || train->empty()) return std::nullopt;
  const int64_t largest = std::ranges::max(*train);
  if (largest >= most_classes) return widest_range();
  return range_by("the training labels", std::max<int64_t>(largest + 1, 1));
}

void scan_images(DataScan& scan, const std::vector<ScannedSet>& sets, const spec::DataSection& section,
                 std::optional<int64_t> model_classes) {
  const ScannedSet& train = sets.front();
  const std::optional<std::vector<int64_t>> train_labels = all_labels(train);
  const std::optional<LabelRange> range = label_range(section, train_labels, model_classes);
  for (const ScannedSet& set : sets) {
    for (const LabelledFile& file : set.files) {
      check_count(file, scan.findings);
      if (file.labels && range) check_labels(file, *range, scan.findings);
    }
    check_not_empty(set, scan.findings);
  }
  const bool known = range && range->is_known;
  if (train_labels && known) check_occurrence(*train_labels, range->classes, scan.findings);
  check_shapes(sets, section, scan.findings);
  scan.classes = model_classes.value_or(known ? range->classes : 0);
  scan.train_samples = images_of(train);
  if (train.layout) scan.stored_shape = {train.layout->channels, train.layout->height, train.layout->width};
}

// The bytes or tokens of a file that form samples.
struct TextPart {
  std::string name;
  TokenPart place;
  std::string unit = "bytes";
};

void check_text_part(const TextPart& part, const std::string& path, int64_t context, DataScan& scan) {
  const int64_t count = part.place.end - part.place.begin, samples = count > 0 ? (count - 1) / context : 0;
  if (part.name == "training") scan.train_samples = samples;
  if (samples > 0) {
    scan.findings.push_back(
        Finding::fine("data", fmt::format("{}: {} {} samples of {} tokens", path, samples, part.name, context)));
    return;
  }
  scan.findings.push_back(
      Finding::user_error("data",
                          fmt::format("{}: {} {} for the {} set are too few for a sample of {} tokens: {} are needed",
                                      path, count, part.unit, part.name, context, context + 1),
                          "use a longer text, shorten model.context, or change data.holdout (0: no test set)"));
}

std::string vocabulary(std::span<const std::byte> text) {
  std::array<bool, 256> occurs{};
  for (const std::byte byte : text) occurs[static_cast<size_t>(byte)] = true;
  return fmt::format("{} of the 256 bytes occur", std::ranges::count(occurs, true));
}

// Returns the size of the text; nothing if it is unreadable or empty.
std::optional<size_t> scan_text_file(const std::string& path, int64_t classes, Findings& findings) {
  try {
    const FileBytes file = FileBytes::open(path);
    if (file.size() == 0) throw Error::make(Fault::corrupt, "{}: the text is empty", path).advise("use another text");
    check_tokens(file, path, classes);
    const auto looked_at = file.bytes.first(std::min(file.size(), kTextBytesLookedAt));
    findings.push_back(
        Finding::fine("data", fmt::format("{}: {} bytes; {}", path, file.size(), vocabulary(looked_at))));
    if (std::memchr(looked_at.data(), 0, looked_at.size()) != nullptr) {
      findings.push_back(Finding::warn("data", path + ": contains zero bytes, so it may not be text",
                                       "check that it is neither compressed nor in UTF-16"));
    }
    return file.size();
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
    return std::nullopt;
  }
}

void scan_text(DataScan& scan, const spec::DataSection& section, int64_t context, int64_t classes) {
  scan.classes = classes;
  const bool held_out = section.test_path.empty() && section.holdout > 0;
  if (const std::optional<size_t> size = scan_text_file(section.path, classes, scan.findings)) {
    const TokenSplit split = split_tokens(static_cast<int64_t>(*size), held_out ? section.holdout : 0);
    check_text_part({"training", split.train}, section.path, context, scan);
    if (split.test) check_text_part({"test", *split.test}, section.path, context, scan);
  }
  if (section.test_path.empty()) return;
  if (const std::optional<size_t> size = scan_text_file(section.test_path, classes, scan.findings))
    check_text_part({"test", {0, static_cast<int64_t>(*size)}}, section.test_path, context, scan);
}

// The number of tokens in a file; nothing if they are unusable.
std::optional<int64_t> scan_token_file(const FileName& name, const spec::DataSection& section, int64_t classes,
                                       Findings& findings) {
  try {
    const TokenArray tokens = TokenArray::of(open_files({name}).front(), section.token_type);
    if (const std::optional<int64_t> outside = tokens.find_outside(classes, 0, tokens.size()))
      throw token_out_of_range(tokens, *outside, classes, name.path);
    findings.push_back(Finding::fine("data", fmt::format("{}: {} {} tokens, all below {}", name.path, tokens.size(),
                                                         name_of(tokens.word()), classes)));
    return tokens.size();
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
    return std::nullopt;
  }
}

void scan_tokens(DataScan& scan, const spec::DataSection& section, int64_t context, int64_t classes) {
  scan.classes = classes;
  const std::vector<FileName> names = file_names(section);
  const double holdout = names.size() == 1 ? section.holdout : 0;
  if (const std::optional<int64_t> size = scan_token_file(names[0], section, classes, scan.findings)) {
    const TokenSplit split = split_tokens(*size, holdout);
    check_text_part({"training", split.train, "tokens"}, names[0].path, context, scan);
    if (split.test) check_text_part({"test", *split.test, "tokens"}, names[0].path, context, scan);
  }
  if (names.size() < 2) return;
  if (const std::optional<int64_t> size = scan_token_file(names[1], section, classes, scan.findings))
    check_text_part({"test", {0, *size}, "tokens"}, names[1].path, context, scan);
}

// The shape of photos for the model, whatever their sizes.
void note_photo_shape(DataScan& scan, const spec::DataSection& section) {
  const std::vector<int64_t>& size = section.crop.empty() ? section.resize : section.crop;
  if (size.size() != 2) return;  // a finding already
  scan.stored_shape = {section.channels.value_or(3), size[0], size[1]};
  scan.findings.push_back(
      Finding::fine("transforms", fmt::format("samples of [{}]", fmt::join(scan.stored_shape, ", "))));
}

void scan_synthetic(DataScan& scan, const spec::DataSection& section, std::optional<int64_t> classes) {
  try {
    require_room(section, classes);
  } catch (const Error& error) {
    return scan.findings.push_back(Finding::of("data", error));
  }
  scan.classes = classes.value_or(synthetic_classes);
  scan.train_samples = section.samples;
  scan.findings.push_back(Finding::fine(
      "data", fmt::format("{} synthetic samples of [{}]", section.samples, fmt::join(section.shape, ", "))));
  if (section.shape.size() != 3) return;
  scan.stored_shape = section.shape;
  const ImageLayout layout{PixelType::u8, section.shape[0], section.shape[1], section.shape[2]};
  check_shapes({ScannedSet{"training", layout, {}}}, section, scan.findings);
}

std::unique_ptr<Dataset> scan_array_file(const FileName& name, const std::vector<std::string>& arrays,
                                         Findings& findings) {
  try {
    std::unique_ptr<Dataset> samples = read_hdf5_arrays(open_files({name}).front(), arrays);
    findings.push_back(Finding::fine(
        "data", fmt::format("{}: {} samples of {}", name.path, samples->size(), describe_arrays(samples->shape()))));
    return samples;
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
    return nullptr;
  }
}

void scan_arrays(DataScan& scan, const spec::DataSection& section, const std::vector<std::string>& arrays) {
  try {
    refuse_transforms(section, arrays);
  } catch (const Error& error) {
    scan.findings.push_back(Finding::of("data", error));
  }
  const auto train = scan_array_file({"training data", section.path, FileKind::as_it_is}, arrays, scan.findings);
  if (train) scan.train_samples = train->size();
  if (section.test_path.empty()) return;
  const auto test = scan_array_file({"test data", section.test_path, FileKind::as_it_is}, arrays, scan.findings);
  if (!train || !test) return;
  try {
    require_same_arrays(train->shape(), test->shape());
  } catch (const Error& error) {
    scan.findings.push_back(Finding::of("data", error));
  }
}

}  // namespace

bool DataScan::fine() const {
  return std::ranges::none_of(findings, [](const Finding& finding) { return finding.severity == Severity::error; });
}

DataScan scan(const spec::DataSection& section, int64_t text_context, std::optional<int64_t> classes,
              const std::vector<std::string>& arrays) {
  if (section.plugins) h5::allow_plugins();
  DataScan result;
  if (section.format == spec::DataFormat::hdf5 && !arrays.empty()) {
    scan_arrays(result, section, arrays);
    return result;
  }
  switch (section.format) {
    case spec::DataFormat::idx:
      scan_images(result, scan_idx(section, result.findings), section, classes);
      break;
    case spec::DataFormat::cifar10:
    case spec::DataFormat::cifar100:
      scan_images(result, scan_cifar(section, result.findings), section, classes);
      break;
    case spec::DataFormat::hdf5:
      scan_images(result, scan_hdf5(section, result.findings), section, classes);
      break;
    case spec::DataFormat::text:
      scan_text(result, section, text_context, classes.value_or(256));
      break;
    case spec::DataFormat::tokens:
      scan_tokens(result, section, text_context, classes.value_or(0));
      break;
    case spec::DataFormat::images:
    case spec::DataFormat::webdataset:
      scan_images(result, scan_photos(section, result.findings), section, classes);
      note_photo_shape(result, section);
      break;
    case spec::DataFormat::voc:
      result.train_samples = scan_voc(section, result.findings);
      break;
    case spec::DataFormat::synthetic:
      scan_synthetic(result, section, classes);
      break;
  }
  return result;
}

}  // namespace estrain::data
