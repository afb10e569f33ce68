#include "core/data/formats/idx.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/error.h"
#include "core/data/files/file_bytes.h"
#include "core/data/formats/labelled_images.h"

namespace estrain::data {
namespace {

constexpr const char* kIdxAdvice =
    "data.path must be a folder with the four standard files; otherwise name them: data.images, "
    "data.labels, data.test_images, data.test_labels";

// The big-endian 32-bit number at `at`.
uint32_t big_endian(const std::byte* at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(at[i]);
  return value;
}

// The size of an array. Returns nothing if the size, or a partial product next to a dimension of zero, does not fit
// into 64 bits.
std::optional<size_t> bytes_of(const std::vector<int64_t>& dims) {
  int64_t bytes = 1;
  for (const int64_t dim : dims)
    if (dim > 0 && __builtin_mul_overflow(bytes, dim, &bytes)) return std::nullopt;
  return std::ranges::find(dims, 0) == dims.end() ? static_cast<size_t>(bytes) : 0;
}

struct IdxArray {
  FileBytes file;
  std::vector<int64_t> dims;
  const std::byte* values;
};

Error not_idx(const std::string& path, const char* what) {
  return Error::make(Fault::corrupt, "{}: not an IDX file of {}", path, what);
}

IdxArray array_in(const DataFile& data_file, const char* what) {
  const std::string& path = data_file.path;
  IdxArray array{data_file.content, {}, nullptr};
  const auto& bytes = array.file.bytes;
  if (bytes.size() < 4 || big_endian(bytes.data()) >> 8 != 0x08) throw not_idx(path, what);
  const size_t rank = static_cast<uint8_t>(bytes[3]);
  const size_t header = 4 + 4 * rank;
  if (bytes.size() < header) throw Error::make(Fault::corrupt, "{}: truncated inside its header", path);
  for (size_t i = 0; i < rank; ++i) array.dims.push_back(big_endian(bytes.data() + 4 + 4 * i));
  const std::optional<size_t> expected = bytes_of(array.dims);
  if (!expected) throw Error::make(Fault::corrupt, "{}: its header declares more data than memory can hold", path);
  const size_t present = bytes.size() - header;
  if (present != *expected) {
    throw Error::make(Fault::corrupt, "{}: {}: its header declares {} bytes of {}, but there are {}", path,
                      present < *expected ? "truncated" : "too long", *expected, what, present)
        .advise("download the file again");
  }
  array.values = bytes.data() + header;
  return array;
}

// `dims`: [images, height, width] or [images, channels, height, width].
ImageLayout layout_of(const std::vector<int64_t>& dims) {
  const size_t n = dims.size();
  return {PixelType::u8, n == 4 ? dims[1] : 1, dims[n - 2], dims[n - 1]};
}

ImageLayout image_layout(const IdxArray& array, const std::string& path) {
  if (array.dims.size() != 3 && array.dims.size() != 4) throw not_idx(path, "images");
  const ImageLayout layout = layout_of(array.dims);
  if (layout.elements() == 0) throw Error::make(Fault::corrupt, "{}: its images have no pixels", path);
  return layout;
}

std::vector<int64_t> read_labels(const DataFile& file) {
  const IdxArray array = array_in(file, "labels");
  if (array.dims.size() != 1) throw not_idx(file.path, "labels");
  std::vector<int64_t> labels;
  labels.reserve(static_cast<size_t>(array.dims[0]));
  for (int64_t i = 0; i < array.dims[0]; ++i) labels.push_back(static_cast<uint8_t>(array.values[i]));
  return labels;
}

// The files of one set.
struct IdxFiles {
  std::string images, labels;
  bool is_standard = false;  // the files have a folder's standard names, and may be compressed (.gz)
};

IdxFiles standard_names(const std::string& folder, const std::string& prefix) {
  return {folder + "/" + prefix + "-images-idx3-ubyte", folder + "/" + prefix + "-labels-idx1-ubyte", true};
}

std::string present_file(const std::string& name, bool is_standard) {
  return is_standard ? plain_or_gzip(name, kIdxAdvice) : name;
}

IdxFiles standard_files(const std::string& folder, const std::string& prefix) {
  const IdxFiles names = standard_names(folder, prefix);
  return {present_file(names.images, true), present_file(names.labels, true), true};
}

bool named(const std::string& images, const std::string& labels, const char* keys) {
  if (images.empty() != labels.empty()) throw Error::make(Fault::spec, "{} belong together; only one is given", keys);
  return !images.empty();
}

// Throws Fault::io if a standard file is missing, Fault::spec if only one of the two keys is given.
IdxFiles train_files(const spec::DataSection& section) {
  if (named(section.images, section.labels, "data.images and data.labels")) return {section.images, section.labels};
  if (section.path.empty()) throw Error(Fault::spec, "data.format = \"idx\" needs data.path").advise(kIdxAdvice);
  return standard_files(section.path, "train");
}

// The test files. Returns nothing if neither the keys nor data.path name test files. Throws as train_files().
std::optional<IdxFiles> test_files(const spec::DataSection& section) {
  if (named(section.test_images, section.test_labels, "data.test_images and data.test_labels"))
    return IdxFiles{section.test_images, section.test_labels};
  if (section.path.empty()) return std::nullopt;
  return standard_files(section.path, "t10k");
}

std::unique_ptr<ImageTable> read_idx(const DataFile& image_file, const DataFile& label_file) {
  const IdxArray images = array_in(image_file, "images");
  const std::vector<int64_t> labels = read_labels(label_file);
  if (images.dims.empty() || images.dims[0] != static_cast<int64_t>(labels.size())) {
    throw Error::make(Fault::corrupt, "{} has {} images, but {} has {} labels", image_file.path,
                      images.dims.empty() ? 0 : images.dims[0], label_file.path, labels.size())
        .advise("the two files do not belong together");
  }
  const ImageLayout layout = image_layout(images, image_file.path);
  auto table = std::make_unique<ImageTable>(layout);
  table->append({images.file.owner, images.values, layout.bytes()}, labels, label_file.path);
  return table;
}

Error damaged(const std::string& path, const std::string& what) {
  return Error::make(Fault::corrupt, "{}: {}", path, what).advise("download the file again");
}

// An IdxContent is an array read by the scan.
struct IdxContent {
  FileBytes file;
  std::vector<int64_t> dims;
  std::span<const std::byte> values;
};

IdxContent read_idx_content(const std::string& path, const char* what, size_t least_dims, size_t most_dims) {
  IdxContent content{FileBytes::open(path), {}, {}};
  const auto& bytes = content.file.bytes;
  const bool idx = bytes.size() >= 4 && big_endian(bytes.data()) >> 8 == 0x08;
  const size_t rank = idx ? static_cast<uint8_t>(bytes[3]) : 0;
  if (!idx || rank < least_dims || rank > most_dims) throw damaged(path, fmt::format("not an IDX file of {}", what));
  const size_t header = 4 + 4 * rank;
  if (bytes.size() < header) throw damaged(path, "truncated inside its header");
  for (size_t i = 0; i < rank; ++i) content.dims.push_back(big_endian(bytes.data() + 4 + 4 * i));
  if (bytes_of(content.dims) != bytes.size() - header) {
    throw damaged(path, fmt::format("its header declares {} bytes of {}, but there are {}",
                                    fmt::join(content.dims, " x "), what, bytes.size() - header));
  }
  content.values = bytes.subspan(header);
  return content;
}

void scan_idx_images(const IdxFiles& names, ScannedSet& set, std::vector<Finding>& findings) {
  note_file(findings, names.images, [&] {
    const IdxContent content = read_idx_content(present_file(names.images, names.is_standard), "images", 3, 4);
    const ImageLayout layout = layout_of(content.dims);
    set.files.back().images = content.dims[0];
    if (layout.elements() == 0) throw damaged(names.images, "its images have no pixels");
    set.layout = layout;
    return fmt::format("{} images of {}", content.dims[0], text_of(layout));
  });
}

void scan_idx_labels(const IdxFiles& names, LabelledFile& file, std::vector<Finding>& findings) {
  note_file(findings, names.labels, [&] {
    const IdxContent content = read_idx_content(present_file(names.labels, names.is_standard), "labels", 1, 1);
    std::vector<int64_t> labels;
    labels.reserve(content.values.size());
    for (const std::byte value : content.values) labels.push_back(static_cast<uint8_t>(value));
    file.labels = std::move(labels);
    return fmt::format("{} labels", file.labels->size());
  });
}

ScannedSet scan_idx_set(std::string name, const IdxFiles& names, std::vector<Finding>& findings) {
  ScannedSet set{std::move(name), {}, {{names.labels, {}, {}}}};
  scan_idx_images(names, set, findings);
  scan_idx_labels(names, set.files.back(), findings);
  return set;
}

std::vector<ScannedSet> scan_sets(const spec::DataSection& section, std::vector<Finding>& findings) {
  if (!section.path.empty()) {
    return {scan_idx_set("training", standard_names(section.path, "train"), findings),
            scan_idx_set("test", standard_names(section.path, "t10k"), findings)};
  }
  std::vector<ScannedSet> sets = {scan_idx_set("training", {section.images, section.labels}, findings)};
  if (!section.test_images.empty())
    sets.push_back(scan_idx_set("test", {section.test_images, section.test_labels}, findings));
  return sets;
}

class IdxFormat : public Format {
 public:
  // Images and labels; of the test set too, if the section names a test set.
  std::vector<FileName> file_names(const spec::DataSection& section) const override {
    const IdxFiles train = train_files(section);
    std::vector<FileName> names = {{"training images", train.images}, {"training labels", train.labels}};
    if (const std::optional<IdxFiles> test = test_files(section)) {
      names.push_back({"test images", test->images});
      names.push_back({"test labels", test->labels});
    }
    return names;
  }
  DataPair open(const DataRequest& request, const std::vector<DataFile>& files) const override {
    return open_images({read_idx(files[0], files[1]), files.size() > 2 ? read_idx(files[2], files[3]) : nullptr},
                       request);
  }
  void scan(const DataRequest& request, DataScan& scan) const override {
    scan_images(scan, scan_sets(request.section, scan.findings), request);
  }
  std::optional<DataPlace> in_folder(const std::filesystem::path& folder) const override {
    const char* const images = "train-images-idx3-ubyte";
    const bool found = exists(folder / images) || exists(folder / (std::string(images) + ".gz"));
    return found ? std::optional(DataPlace{folder}) : std::nullopt;
  }
};

}  // namespace

const Format& idx_format() {
  static const IdxFormat format;
  return format;
}

}  // namespace estrain::data
