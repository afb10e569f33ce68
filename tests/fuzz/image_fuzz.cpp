// One image file in a folder of images: decoded, cropped and scaled. The first byte holds the options, the
// rest is the file.
#include "core/data/photos/photos.h"
#include "tests/fuzz/read_samples.h"

namespace estrain::fuzz {
namespace {

enum Flags : uint8_t { scaled = 1, cut = 2, grey = 4, flipped = 8, upright = 16 };

// Larger images only cost time.
constexpr int64_t kMostPixels = 1 << 20;

class Files {
 public:
  Files() {
    std::filesystem::create_directory(folder_ / "a");
    folder_.link("a/1.jpg", file_.path());
  }

  void read(const uint8_t* head, std::string_view bytes) {
    const uint8_t flags = head[0];
    file_.set(bytes);
    const std::span<const std::byte> span = std::as_bytes(std::span(bytes));
    image::Header header;
    if (!accepts([&] { header = image::read_header(span); })) return;
    const auto [height, width] = header.size;
    require(height > 0 && width > 0 && height * width <= image::most_pixels, "a size is one");
    if (height * width > kMostPixels) return;
    image::Image photo;
    const bool whole = accepts([&] { image::decode(span, photo); });
    if (whole) {
      image::Image turned;
      image::decode(span, turned, image::Orientation::by_exif);
      require(turned.size == image::read_header(span, image::Orientation::by_exif).size, "a header says how it comes");
      require(turned.pixels.size() == photo.pixels.size(), "no pixel is lost");
    }
    if (whole) {
      require(photo.size == header.size && photo.channels == header.channels, "a header says what comes");
      require(photo.pixels.size() == static_cast<size_t>(height * width * photo.channels), "every pixel is there");
    }
    spec::DataSection section;
    section.format = spec::DataFormat::images;
    section.path = folder_.path();
    section.crop = {8, 9};
    if ((flags & scaled) != 0) section.resize = {10};
    if ((flags & cut) != 0) section.scale = {0.1, 1.0};
    if ((flags & grey) != 0) section.channels = 1;
    section.flip = (flags & flipped) != 0;
    section.orient = (flags & upright) != 0;
    const bool read = accepts([&] { read_samples(data::open(section, 0, 1)); });
    require(whole || !read, "no sample comes from a damaged file");
  }

 private:
  Folder folder_;
  MemoryFile file_;
};

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return estrain::fuzz::read_with_head<estrain::fuzz::Files, 1>(data, size);
}
