#include "core/data/formats/hdf5_images.h"

#include "core/base/error.h"
#include "core/data/formats/hdf5_elements.h"
#include "core/formats/h5/file.h"

namespace estrain::data {
namespace {

constexpr const char* kHdf5Advice =
    "images must be uint8 or float32 of shape (N, C, H, W), (N, H, W) or, with data.layout = \"nhwc\", (N, H, W, C); "
    "labels integers of shape (N)";
constexpr int64_t kMostChannels = 4;  // of usual images: grey, with alpha, colours, with alpha

Error wrong(const std::string& path, const std::string& what) {
  return Error::make(Fault::mismatch, "{}: {}", path, what).advise(kHdf5Advice);
}

void require_clear_order(const std::vector<int64_t>& shape, const std::string& path) {
  if (shape[1] <= kMostChannels || shape[3] > kMostChannels) return;
  throw Error::make(Fault::mismatch, "{}: images of shape {}: {} channels of {} x {} pixels, or {} channels of {} x {}",
                    path, h5::shape_text(shape), shape[1], shape[2], shape[3], shape[3], shape[1], shape[2])
      .advise(fmt::format("say which: data.layout = \"nhwc\" for {0} channels, which stand last, or \"nchw\" for {1}",
                          shape[3], shape[1]));
}

bool is_integer(h5::Type type) { return type != h5::Type::f32 && type != h5::Type::f64 && type != h5::Type::other; }

}  // namespace

StoredImages stored_images(const h5::Dataset& images, spec::ImageOrder order, const std::string& path) {
  const std::vector<int64_t>& shape = images.shape();
  const size_t rank = shape.size();
  if (rank != 3 && rank != 4) throw wrong(path, "images has shape " + h5::shape_text(shape));
  if (images.type() != h5::Type::u8 && images.type() != h5::Type::f32)
    throw wrong(path, "images holds neither uint8 nor float32");
  if (rank == 4 && order == spec::ImageOrder::automatic) require_clear_order(shape, path);
  StoredImages stored;
  stored.is_interleaved = rank == 4 && order == spec::ImageOrder::nhwc;
  const size_t row = stored.is_interleaved ? 1 : rank - 2;
  const int64_t channels = rank == 3 ? 1 : stored.is_interleaved ? shape[3] : shape[1];
  stored.layout = {images.type() == h5::Type::u8 ? PixelType::u8 : PixelType::f32, channels, shape[row],
                   shape[row + 1]};
  if (stored.layout.elements() == 0) throw wrong(path, "its images have no pixels");
  return stored;
}

h5::Dataset labelled_part(const h5::Group& root, const char* name, const std::string& path) {
  if (!root.contains(name)) throw wrong(path, fmt::format("has no dataset {}", name));
  return root.dataset(name);
}

std::vector<int64_t> hdf5_labels(const h5::Dataset& labels, const std::string& path) {
  if (labels.shape().size() != 1 || !is_integer(labels.type()))
    throw wrong(path, fmt::format("labels is not a list of integers, but {} {}", h5::type_name(labels.type()),
                                  h5::shape_text(labels.shape())));
  require_readable(labels, path);
  std::vector<int64_t> values(static_cast<size_t>(labels.elements()));
  labels.read(h5::Type::i64, values.data());
  return values;
}

std::unique_ptr<ImageTable> read_hdf5_images(const DataFile& file, spec::ImageOrder order) {
  const std::string& path = file.path;
  const h5::Group root = h5::File::open(path).root();
  const h5::Dataset images = labelled_part(root, "images", path), labels = labelled_part(root, "labels", path);
  const StoredImages stored = stored_images(images, order, path);
  const std::vector<int64_t> values = hdf5_labels(labels, path);
  if (images.shape()[0] != static_cast<int64_t>(values.size()))
    throw Error::make(Fault::corrupt, "{}: {} images, but {} labels", path, images.shape()[0], values.size());
  auto table = std::make_unique<ImageTable>(stored.layout);
  if (values.empty()) return table;
  const Elements pixels = elements_of(images, images.type(), file);
  table->append({pixels.owner, pixels.first, stored.layout.bytes(), stored.is_interleaved}, values, path + ": labels");
  return table;
}

}  // namespace estrain::data
