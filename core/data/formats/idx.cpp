#include "core/data/formats/idx.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/files/file_bytes.h"

namespace estrain::data {
namespace {

constexpr const char* kIdxAdvice =
    "data.path must be a folder with the four standard files; otherwise name them: data.images, "
    "data.labels, data.test_images, data.test_labels";

struct IdxArray {
  FileBytes file;
  std::vector<int64_t> dims;
  const std::byte* values;
};

Error not_idx(const std::string& path, const char* what) {
  return Error::make(Fault::corrupt, "{}: not an IDX file of {}", path, what);
}

// Every partial product must fit into 64 bits, even if another dimension is zero.
size_t bytes_of(const std::vector<int64_t>& dims, const std::string& path) {
  int64_t bytes = 1;
  for (const int64_t dim : dims) {
    if (dim > 0 && __builtin_mul_overflow(bytes, dim, &bytes))
      throw Error::make(Fault::corrupt, "{}: its header declares more data than memory can hold", path);
  }
  return std::ranges::find(dims, 0) == dims.end() ? static_cast<size_t>(bytes) : 0;
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
  const size_t expected = bytes_of(array.dims, path);
  const size_t present = bytes.size() - header;
  if (present != expected) {
    throw Error::make(Fault::corrupt, "{}: {}: its header declares {} bytes of {}, but there are {}", path,
                      present < expected ? "truncated" : "too long", expected, what, present)
        .advise("download the file again");
  }
  array.values = bytes.data() + header;
  return array;
}

ImageLayout image_layout(const IdxArray& array, const std::string& path) {
  const auto& dims = array.dims;
  if (dims.size() != 3 && dims.size() != 4) throw not_idx(path, "images");
  const size_t n = dims.size();
  const ImageLayout layout{PixelType::u8, n == 4 ? dims[1] : 1, dims[n - 2], dims[n - 1]};
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

bool named(const std::string& images, const std::string& labels, const char* keys) {
  if (images.empty() != labels.empty()) throw Error::make(Fault::spec, "{} belong together; only one is given", keys);
  return !images.empty();
}

IdxFiles standard_files(const std::string& folder, const std::string& prefix) {
  return {plain_or_gzip(folder + "/" + prefix + "-images-idx3-ubyte", kIdxAdvice),
          plain_or_gzip(folder + "/" + prefix + "-labels-idx1-ubyte", kIdxAdvice)};
}

}  // namespace

IdxFiles idx_train_files(const spec::DataSection& section) {
  if (named(section.images, section.labels, "data.images and data.labels")) return {section.images, section.labels};
  if (section.path.empty()) throw Error(Fault::spec, "data.format = \"idx\" needs data.path").advise(kIdxAdvice);
  return standard_files(section.path, "train");
}

std::optional<IdxFiles> idx_test_files(const spec::DataSection& section) {
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

}  // namespace estrain::data
