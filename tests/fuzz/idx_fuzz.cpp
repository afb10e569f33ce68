// IDX images and labels, plain and gzip. Input: one byte of flags, a 16-bit length, that many bytes of the labels'
// file, the rest are the images' file.
#include <zlib.h>

#include "tests/fuzz/read_samples.h"

namespace estrain::fuzz {
namespace {

enum Flags : uint8_t {
  images_gz = 1,      // the name ends in .gz
  labels_gz = 2,      //
  images_packed = 4,  // the bytes are compressed first, to fuzz the code behind the decompression
  labels_packed = 8,
  resized = 16,
  grey_to_colour = 32,
  cropped = 64,
};

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  require(deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib starts");
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib packs");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

class Files {
 public:
  Files() {
    folder_.link("images", images_.path());
    folder_.link("images.gz", images_.path());
    folder_.link("labels", labels_.path());
    folder_.link("labels.gz", labels_.path());
  }
  void read(uint8_t flags, std::string_view images, std::string_view labels) {
    images_.set((flags & images_packed) != 0 ? gzip(images) : images);
    labels_.set((flags & labels_packed) != 0 ? gzip(labels) : labels);
    spec::DataSection section;
    section.format = spec::DataFormat::idx;
    section.images = folder_ / ((flags & images_gz) != 0 ? "images.gz" : "images");
    section.labels = folder_ / ((flags & labels_gz) != 0 ? "labels.gz" : "labels");
    if ((flags & resized) != 0) section.resize = {5, 3};
    if ((flags & grey_to_colour) != 0) section.channels = 3;
    if ((flags & cropped) != 0) section.pad = 1, section.crop = {4, 4}, section.flip = true;
    accepts([&] { read_samples(data::open(section, 0, 1)); });
  }

 private:
  Folder folder_;
  MemoryFile images_, labels_;
};

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static estrain::fuzz::Files files;
  if (size < 3) return 0;
  const std::string_view rest = estrain::fuzz::text_of(data + 3, size - 3);
  const size_t labels = std::min<size_t>(rest.size(), data[1] | data[2] << 8);
  files.read(data[0], rest.substr(labels), rest.substr(0, labels));
  return 0;
}
