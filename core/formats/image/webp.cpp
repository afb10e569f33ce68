#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "core/formats/image/formats.h"

namespace estrain::image {
namespace {

// Lossless coding's longest copy has 4096 pixels and takes at least one bit.
constexpr int64_t kMostWebpPixelsPerByte = 32768;

struct Delete {
  void operator()(WebPDemuxer* file) const { WebPDemuxDelete(file); }
};

// The chunks of a whole file.
class WebpFile {
 public:
  explicit WebpFile(std::span<const std::byte> file)
      : data_{reinterpret_cast<const uint8_t*>(file.data()), file.size()}, chunks_(WebPDemux(&data_)) {
    if (!chunks_) throw Error(Fault::corrupt, "damaged or truncated WebP");
    if (!WebPDemuxGetFrame(chunks_.get(), 1, &frame_)) throw Error(Fault::corrupt, "WebP without a picture");
  }
  ~WebpFile() { WebPDemuxReleaseIterator(&frame_); }
  WebpFile(const WebpFile&) = delete;
  WebpFile& operator=(const WebpFile&) = delete;

  Header header() const {
    const auto number = [this](WebPFormatFeature what) { return int64_t{WebPDemuxGetI(chunks_.get(), what)}; };
    const Header header = {{number(WEBP_FF_CANVAS_HEIGHT), number(WEBP_FF_CANVAS_WIDTH)}, 3};
    require_sane(header, data_.size, kMostWebpPixelsPerByte);
    return header;
  }

  // An animation's first picture may be smaller than the canvas, which is black around it.
  void decode(Image& out) const {
    const Size shown = {frame_.height, frame_.width};
    if (shown != out.size) std::ranges::fill(out.pixels, uint8_t{0});
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) throw Error(Fault::bug, "libwebp does not start");
    const int64_t row = out.size.width * 3, first = frame_.y_offset * row + int64_t{frame_.x_offset} * 3;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {out.pixels.data() + first, static_cast<int>(row),
                            out.pixels.size() - static_cast<size_t>(first)};
    const VP8StatusCode status = WebPDecode(frame_.fragment.bytes, frame_.fragment.size, &config);
    if (status == VP8_STATUS_OK) return;
    if (status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED)
      throw Error(Fault::corrupt, "truncated WebP");
    throw Error(Fault::corrupt, "damaged WebP");
  }

  std::string_view chunk(const char* name) const {
    WebPChunkIterator found;
    std::string_view bytes;
    if (WebPDemuxGetChunk(chunks_.get(), name, 1, &found))
      bytes = {reinterpret_cast<const char*>(found.chunk.bytes), found.chunk.size};
    WebPDemuxReleaseChunkIterator(&found);
    return bytes;
  }

 private:
  WebPData data_;
  std::unique_ptr<WebPDemuxer, Delete> chunks_;
  WebPIterator frame_{};
};

}  // namespace

bool is_webp(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  return text.size() >= 12 && text.starts_with("RIFF") && text.substr(8).starts_with("WEBP");
}

Header read_webp_header(std::span<const std::byte> file) { return WebpFile(file).header(); }

void decode_webp(std::span<const std::byte> file, Image& out) {
  const WebpFile webp(file);
  const Header header = webp.header();
  make_room(out, header, header.channels);
  webp.decode(out);
}

Notes read_webp_notes(std::span<const std::byte> file) {
  const WebpFile webp(file);
  return {webp.chunk("EXIF"), webp.chunk("XMP ")};
}

}  // namespace estrain::image
