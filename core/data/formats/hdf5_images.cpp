#include "core/data/formats/hdf5_images.h"

#include <filesystem>
#include <new>
#include <optional>

#include "core/base/error.h"
#include "core/data/files/file_bytes.h"
#include "core/h5/file.h"

namespace estrain::data {
namespace {

constexpr const char* kHdf5Advice =
    "images must be uint8 or float32 of shape (N, C, H, W) or (N, H, W), labels integers of shape (N)";

struct Pixels {
  std::shared_ptr<const std::byte> owner;
  const std::byte* first;
};

Error wrong(const std::string& path, const std::string& what) {
  return Error::make(Fault::mismatch, "{}: {}", path, what).advise(kHdf5Advice);
}

ImageLayout layout_of(const h5::Dataset& images, const std::string& path) {
  const auto& shape = images.shape();
  const size_t rank = shape.size();
  if (rank != 3 && rank != 4) throw wrong(path, fmt::format("images has {} dimensions", rank));
  if (images.type() != h5::Type::u8 && images.type() != h5::Type::f32)
    throw wrong(path, "images holds neither uint8 nor float32");
  const ImageLayout layout{images.type() == h5::Type::u8 ? PixelType::u8 : PixelType::f32, rank == 4 ? shape[1] : 1,
                           shape[rank - 2], shape[rank - 1]};
  if (layout.elements() == 0) throw wrong(path, "its images have no pixels");
  return layout;
}

bool is_integer(h5::Type type) { return type != h5::Type::f32 && type != h5::Type::f64 && type != h5::Type::other; }

// Unwritten chunks take no space, so a small file can declare more data than fit into memory. But deflate, the
// strongest filter in use, shrinks data at most to 1/1032.
void require_stored(const h5::Dataset& data, const std::string& path) {
  constexpr uint64_t most_per_byte = 1032, small = 1 << 20;
  const uint64_t announced = static_cast<uint64_t>(data.elements()) * h5::type_size(data.type());
  const uint64_t stored = std::filesystem::file_size(path);
  if (announced > small && announced / most_per_byte > stored) {
    throw Error::make(Fault::corrupt, "{}: declares {} bytes of data, but the file has {}", data.where(), announced,
                      stored)
        .advise("it was never filled, or is damaged");
  }
}

std::vector<int64_t> labels_of(const h5::Dataset& labels, int64_t images, const std::string& path) {
  if (labels.shape().size() != 1 || !is_integer(labels.type())) throw wrong(path, "labels is not a list of integers");
  if (labels.shape()[0] != images)
    throw Error::make(Fault::corrupt, "{}: {} images, but {} labels", path, images, labels.shape()[0]);
  require_stored(labels, path);
  std::vector<int64_t> values(static_cast<size_t>(images));
  labels.read(h5::Type::i64, values.data());
  return values;
}

Pixels pixels_at(const DataFile& file, uint64_t offset, uint64_t bytes) {
  const FileBytes& content = file.content;
  if (offset > content.size() || bytes > content.size() - offset)
    throw Error::make(Fault::corrupt, "{}: truncated: images end at byte {}, the file at {}", file.path, offset + bytes,
                      content.size());
  return {content.owner, content.data() + offset};
}

Pixels read_pixels(const h5::Dataset& images, uint64_t bytes) {
  constexpr std::align_val_t alignment{64};
  auto* memory = static_cast<std::byte*>(::operator new(bytes, alignment));
  std::shared_ptr<const std::byte> owner(
      memory, [](const std::byte* p) { ::operator delete(const_cast<std::byte*>(p), alignment); });
  images.read(images.type(), memory);
  return {owner, memory};
}

Pixels pixels_of(const h5::Dataset& images, const ImageLayout& layout, const DataFile& file) {
  require_stored(images, file.path);
  const uint64_t bytes = static_cast<uint64_t>(images.shape()[0]) * layout.bytes();
  const std::optional<uint64_t> offset = images.offset();
  return offset && *offset % sizeof(float) == 0 ? pixels_at(file, *offset, bytes) : read_pixels(images, bytes);
}

void require_same_file(const DataFile& file) {
  if (FileStamp::of(file.path) == file.content.stamp) return;
  throw Error::make(Fault::io, "{}: changed while it was read", file.path).advise("try again");
}

}  // namespace

std::unique_ptr<ImageTable> read_hdf5_images(const DataFile& data_file) {
  const std::string& path = data_file.path;
  const h5::File file = h5::File::open(path);
  const h5::Group root = file.root();
  for (const char* name : {"images", "labels"}) {
    if (!root.contains(name)) throw wrong(path, fmt::format("has no dataset {}", name));
  }
  const h5::Dataset images = root.dataset("images");
  const ImageLayout layout = layout_of(images, path);
  const std::vector<int64_t> labels = labels_of(root.dataset("labels"), images.shape()[0], path);
  auto table = std::make_unique<ImageTable>(layout);
  if (labels.empty()) return table;
  const Pixels pixels = pixels_of(images, layout, data_file);
  require_same_file(data_file);
  table->append({pixels.owner, pixels.first, layout.bytes()}, labels, path + ": labels");
  return table;
}

}  // namespace estrain::data
