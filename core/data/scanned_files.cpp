#include "core/data/scanned_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "core/base/error.h"
#include "core/data/files/file_bytes.h"
#include "core/data/formats/cifar.h"
#include "core/data/formats/hdf5_elements.h"
#include "core/data/formats/hdf5_images.h"
#include "core/data/formats/idx.h"
#include "core/formats/h5/file.h"

namespace estrain::data {
namespace {

constexpr const char* kFetchAgain = "download the file again";
constexpr const char* kStandardNames =
    "data.path must be a folder with the four standard files; otherwise name them: data.images, data.labels, "
    "data.test_images, data.test_labels";
std::string text_of(const ImageLayout& layout) {
  return fmt::format("[{}, {}, {}]", layout.channels, layout.height, layout.width);
}

// The finding for one file: its content as described by `body`, or why it is unreadable.
template <typename Body>
void note_file(std::vector<Finding>& findings, const std::string& path, Body body) {
  try {
    findings.push_back(Finding::fine("data", path + ": " + body()));
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
  }
}

Error corrupt(const std::string& path, const std::string& what) {
  return Error::make(Fault::corrupt, "{}: {}", path, what).advise(kFetchAgain);
}

// IDX: see idx.h.
struct IdxContent {
  FileBytes file;
  std::vector<int64_t> dims;
  std::span<const std::byte> values;
};

struct IdxNames {
  std::string images, labels;
  bool standard = false;  // one of a folder's standard files, which may have a compressed version
};

std::string present_file(const std::string& name, const IdxNames& names) {
  return names.standard ? plain_or_gzip(name, kStandardNames) : name;
}

// Nothing if the size, or a partial product next to a dimension of zero, does not fit into 64 bits.
std::optional<size_t> bytes_of(const std::vector<int64_t>& dims) {
  int64_t bytes = 1;
  for (const int64_t dim : dims)
    if (dim > 0 && __builtin_mul_overflow(bytes, dim, &bytes)) return std::nullopt;
  return std::ranges::find(dims, 0) == dims.end() ? static_cast<size_t>(bytes) : 0;
}

IdxContent read_idx_content(const std::string& path, const char* what, size_t least_dims, size_t most_dims) {
  IdxContent content{FileBytes::open(path), {}, {}};
  const auto& bytes = content.file.bytes;
  const bool idx = bytes.size() >= 4 && big_endian(bytes.data()) >> 8 == 0x08;
  const size_t rank = idx ? static_cast<uint8_t>(bytes[3]) : 0;
  if (!idx || rank < least_dims || rank > most_dims) throw corrupt(path, fmt::format("not an IDX file of {}", what));
  const size_t header = 4 + 4 * rank;
  if (bytes.size() < header) throw corrupt(path, "truncated inside its header");
  for (size_t i = 0; i < rank; ++i) content.dims.push_back(big_endian(bytes.data() + 4 + 4 * i));
  if (bytes_of(content.dims) != bytes.size() - header) {
    throw corrupt(path, fmt::format("its header declares {} bytes of {}, but there are {}",
                                    fmt::join(content.dims, " x "), what, bytes.size() - header));
  }
  content.values = bytes.subspan(header);
  return content;
}

void scan_idx_images(const IdxNames& names, ScannedSet& set, std::vector<Finding>& findings) {
  note_file(findings, names.images, [&] {
    const IdxContent content = read_idx_content(present_file(names.images, names), "images", 3, 4);
    const auto& dims = content.dims;
    const size_t n = dims.size();
    const ImageLayout layout{PixelType::u8, n == 4 ? dims[1] : 1, dims[n - 2], dims[n - 1]};
    set.files.back().images = dims[0];
    if (layout.elements() == 0) throw corrupt(names.images, "its images have no pixels");
    set.layout = layout;
    return fmt::format("{} images of {}", dims[0], text_of(layout));
  });
}

void scan_idx_labels(const IdxNames& names, LabelledFile& file, std::vector<Finding>& findings) {
  note_file(findings, names.labels, [&] {
    const IdxContent content = read_idx_content(present_file(names.labels, names), "labels", 1, 1);
    std::vector<int64_t> labels;
    labels.reserve(content.values.size());
    for (const std::byte value : content.values) labels.push_back(static_cast<uint8_t>(value));
    file.labels = std::move(labels);
    return fmt::format("{} labels", file.labels->size());
  });
}

ScannedSet scan_idx_set(std::string name, const IdxNames& names, std::vector<Finding>& findings) {
  ScannedSet set{std::move(name), {}, {{names.labels, {}, {}}}};
  scan_idx_images(names, set, findings);
  scan_idx_labels(names, set.files.back(), findings);
  return set;
}

IdxNames standard_names(const std::string& folder, const std::string& prefix) {
  return {folder + "/" + prefix + "-images-idx3-ubyte", folder + "/" + prefix + "-labels-idx1-ubyte", true};
}

// CIFAR: see cifar.h.
LabelledFile scan_cifar_file(const std::string& path, size_t label_bytes, std::vector<Finding>& findings) {
  LabelledFile result{path, {}, {}};
  note_file(findings, path, [&] {
    const FileBytes file = FileBytes::open(path);
    const size_t stride = label_bytes + kCifarLayout.bytes();
    if (file.size() == 0 || file.size() % stride != 0) {
      throw Error::make(Fault::corrupt, "{}: {} bytes are not a multiple of the record size {}", path, file.size(),
                        stride)
          .advise("download the file again; use the *binary* version, and the matching data.format");
    }
    std::vector<int64_t> labels;
    for (size_t at = label_bytes - 1; at < file.size(); at += stride)
      labels.push_back(static_cast<uint8_t>(file.bytes[at]));
    result.images = static_cast<int64_t>(labels.size());
    result.labels = std::move(labels);
    return fmt::format("{} images of {} with labels", *result.images, text_of(kCifarLayout));
  });
  return result;
}

// HDF5: see hdf5_images.h.
void scan_hdf5_images(const h5::File& file, spec::ImageOrder order, ScannedSet& set, std::vector<Finding>& findings) {
  note_file(findings, file.path(), [&] {
    const h5::Dataset images = labelled_part(file.root(), "images", file.path());
    const ImageLayout layout = stored_images(images, order, file.path()).layout;
    set.files.back().images = images.shape()[0];
    set.layout = layout;
    require_readable(images, file.path());
    return fmt::format("{} images of {}, {}", images.shape()[0], text_of(layout), h5::type_name(images.type()));
  });
}

void scan_hdf5_labels(const h5::File& file, LabelledFile& labelled, std::vector<Finding>& findings) {
  note_file(findings, file.path(), [&] {
    labelled.labels = hdf5_labels(labelled_part(file.root(), "labels", file.path()), file.path());
    return fmt::format("{} labels", labelled.labels->size());
  });
}

ScannedSet scan_hdf5_set(std::string name, const std::string& path, spec::ImageOrder order,
                         std::vector<Finding>& findings) {
  ScannedSet set{std::move(name), {}, {{path + ": labels", {}, {}}}};
  try {
    const h5::File file = h5::File::open(path);
    scan_hdf5_images(file, order, set, findings);
    scan_hdf5_labels(file, set.files.back(), findings);
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
  }
  return set;
}

}  // namespace

Finding unreadable(const Error& error) {
  const char* advice = "check the paths in [data], and that this user may read the files";
  return Finding::user_error("data", error.message(), error.advice().empty() ? advice : error.advice());
}

std::vector<ScannedSet> scan_idx(const spec::DataSection& section, std::vector<Finding>& findings) {
  if (!section.path.empty()) {
    return {scan_idx_set("training", standard_names(section.path, "train"), findings),
            scan_idx_set("test", standard_names(section.path, "t10k"), findings)};
  }
  std::vector<ScannedSet> sets = {scan_idx_set("training", {section.images, section.labels}, findings)};
  if (!section.test_images.empty())
    sets.push_back(scan_idx_set("test", {section.test_images, section.test_labels}, findings));
  return sets;
}

std::vector<ScannedSet> scan_cifar(const spec::DataSection& section, std::vector<Finding>& findings) {
  const bool ten = section.format == spec::DataFormat::cifar10;
  const size_t label_bytes = ten ? 1 : 2;
  std::vector<std::string> train_files = {"train.bin"};
  if (ten)
    train_files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
  ScannedSet train{"training", kCifarLayout, {}}, test{"test", kCifarLayout, {}};
  for (const std::string& name : train_files)
    train.files.push_back(scan_cifar_file(section.path + "/" + name, label_bytes, findings));
  test.files.push_back(scan_cifar_file(section.path + (ten ? "/test_batch.bin" : "/test.bin"), label_bytes, findings));
  return {std::move(train), std::move(test)};
}

std::vector<ScannedSet> scan_hdf5(const spec::DataSection& section, std::vector<Finding>& findings) {
  std::vector<ScannedSet> sets = {scan_hdf5_set("training", section.path, section.layout, findings)};
  if (!section.test_path.empty()) sets.push_back(scan_hdf5_set("test", section.test_path, section.layout, findings));
  return sets;
}

}  // namespace estrain::data
