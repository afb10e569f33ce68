#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/formats/image/formats.h"
#include "core/formats/image/orientation.h"

namespace estrain::image {
namespace {

constexpr uint64_t kMostAtOnce = uint64_t{512} << 20;  // bytes of one allocation of libtiff's

Error tiff_of_unread_kind(const std::string& kind) {
  return Error::make(Fault::corrupt, "TIFF with {}", kind).advise("convert it to PNG");
}

struct CompressionKind {
  uint16_t number;
  int64_t most_pixels_per_byte;  // of one bit
};

// What Pillow reads, and every build of libtiff has. A row of a fax may take a single bit.
constexpr std::array<CompressionKind, 10> kCompressions = {{{COMPRESSION_NONE, 8},
                                                            {COMPRESSION_CCITTRLE, 8 * 65536},
                                                            {COMPRESSION_CCITTFAX3, 8 * 65536},
                                                            {COMPRESSION_CCITTFAX4, 8 * 65536},
                                                            {COMPRESSION_LZW, 8 * 2730},
                                                            {COMPRESSION_JPEG, 512},
                                                            {COMPRESSION_ADOBE_DEFLATE, 8 * 1032},
                                                            {COMPRESSION_DEFLATE, 8 * 1032},
                                                            {COMPRESSION_PACKBITS, 8 * 64},
                                                            {COMPRESSION_ZSTD, 8 * 32768}}};

// Lossy TIFF: a decoder that meets damage goes on with grey.
bool tells_damage(const char* module, const std::string& words) {
  return std::strncmp(module, "JPEG", 4) == 0 && words.find("extraneous") == words.npos;
}

// A TIFF file in memory. libtiff's errors, and warnings of damage, are kept for the message.
class OpenTiff {
 public:
  explicit OpenTiff(std::span<const std::byte> file) : file_(file) {
    std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                             &TIFFOpenOptionsFree);
    if (!options) throw Error(Fault::bug, "libtiff does not start");
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostAtOnce);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), &on_error, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), &on_warning, this);
    tiff_.reset(TIFFClientOpenExt("", "r", this, &read, &write, &seek, &close, &size, &map, &unmap, options.get()));
    if (!tiff_) throw damaged();
    errors_.clear();
  }
  OpenTiff(const OpenTiff&) = delete;
  OpenTiff& operator=(const OpenTiff&) = delete;

  TIFF* get() const { return tiff_.get(); }
  bool has_errors() const { return !errors_.empty(); }
  Error damaged() const {
    return Error::make(Fault::corrupt, "damaged or truncated TIFF{}{}", errors_.empty() ? "" : ": ", errors_);
  }

  template <typename T>
  T number(uint32_t tag, T otherwise) const {
    T value = otherwise;
    return TIFFGetField(tiff_.get(), tag, &value) == 1 ? value : otherwise;
  }

 private:
  struct Close {
    void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  };

  static int on_error(TIFF*, void* self, const char* module, const char* format, va_list values) {
    static_cast<OpenTiff*>(self)->keep(module, format, values);
    return 1;
  }
  static int on_warning(TIFF*, void* self, const char* module, const char* format, va_list values) {
    char words[256];
    va_list again;
    va_copy(again, values);
    std::vsnprintf(words, sizeof words, format, again);
    va_end(again);
    if (tells_damage(module ? module : "", words)) static_cast<OpenTiff*>(self)->keep(module, format, values);
    return 1;
  }
  void keep(const char* module, const char* format, va_list values) {
    char words[256];
    std::vsnprintf(words, sizeof words, format, values);
    if (errors_.empty()) errors_ = fmt::format("{}{}{}", module ? module : "", module ? ": " : "", words);
  }

  static OpenTiff& self(thandle_t handle) { return *static_cast<OpenTiff*>(handle); }
  static tmsize_t read(thandle_t handle, void* out, tmsize_t count) {
    OpenTiff& file = self(handle);
    const size_t left = file.file_.size() - std::min<uint64_t>(file.at_, file.file_.size());
    const size_t got = std::min(left, static_cast<size_t>(std::max<tmsize_t>(count, 0)));
    if (got > 0) std::memcpy(out, file.file_.data() + file.at_, got);
    file.at_ += got;
    return static_cast<tmsize_t>(got);
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return -1; }
  static toff_t seek(thandle_t handle, toff_t offset, int whence) {
    OpenTiff& file = self(handle);
    file.at_ = offset + (whence == SEEK_CUR ? file.at_ : whence == SEEK_END ? file.file_.size() : 0);
    return file.at_;
  }
  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t handle) { return self(handle).file_.size(); }
  static int map(thandle_t handle, void** base, toff_t* bytes) {
    *base = const_cast<std::byte*>(self(handle).file_.data());
    *bytes = self(handle).file_.size();
    return 1;
  }
  static void unmap(thandle_t, void*, toff_t) {}

  std::span<const std::byte> file_;
  uint64_t at_ = 0;
  std::string errors_;  // the first one
  std::unique_ptr<TIFF, Close> tiff_;
};

enum class Colours { grey, palette, rgb, inks };

// How Pillow's table of kinds names what is in a pixel.
struct Kind {
  Colours colours = Colours::grey;
  uint16_t bits = 1, samples = 1;  // of a pixel
  bool is_inverted = false;        // 0 is white
  bool is_premultiplied = false;   // colours are multiplied by alpha, the fourth sample
  bool has_planes = false;         // each sample in a plane of its own

  uint16_t wanted() const {  // samples of a pixel that are shown
    return colours == Colours::rgb ? (is_premultiplied ? 4 : 3) : colours == Colours::inks ? 4 : 1;
  }
  bool is_deep_grey() const { return colours == Colours::grey && bits == 16; }
};

uint16_t samples_of(Colours colours) { return colours == Colours::rgb ? 3 : colours == Colours::inks ? 4 : 1; }

class TiffFile {
 public:
  explicit TiffFile(std::span<const std::byte> file) : file_(file), bytes_(file.size()) {
    const CompressionKind& compression = compression_of_file();
    size_ = {file_.number<uint32_t>(TIFFTAG_IMAGELENGTH, 0), file_.number<uint32_t>(TIFFTAG_IMAGEWIDTH, 0)};
    if (size_.width > INT32_MAX || size_.height > INT32_MAX)
      throw Error::make(Fault::corrupt, "{} x {} pixels: more than {}", size_.height, size_.width, most_pixels);
    text_ = {reinterpret_cast<const char*>(file.data()), file.size()};
    kind_ = read_kind(compression.number);
    most_pixels_per_byte_ = compression.most_pixels_per_byte;
    if (kind_.colours == Colours::palette) read_palette();
  }

  Header stored_header() const {
    const Header header = {size_, kind_.colours == Colours::grey ? 1 : 3, kind_.is_deep_grey()};
    require_sane(header, bytes_, most_pixels_per_byte_);
    require_whole();
    return header;
  }

  int orientation() const {
    if (const auto told = file_.number<uint16_t>(TIFFTAG_ORIENTATION, 0)) return told <= 8 ? told : upright;
    uint32_t count = 0;
    const void* xmp = nullptr;
    if (TIFFGetField(file_.get(), TIFFTAG_XMLPACKET, &count, &xmp) != 1 || !xmp) return upright;
    return orientation_in_xmp({static_cast<const char*>(xmp), count});
  }

  // Decodes inks as four channels, inverted.
  void decode(Image& out) {
    const int planes = kind_.has_planes ? kind_.wanted() : 1;
    for (int plane = 0; plane < planes; ++plane)
      TIFFIsTiled(file_.get()) ? decode_tiles(plane, out) : decode_strips(plane, out);
  }
  bool has_inks() const { return kind_.colours == Colours::inks; }

 private:
  const CompressionKind& compression_of_file() const {
    const auto number = file_.number<uint16_t>(TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    const auto* found = std::ranges::find(kCompressions, number, &CompressionKind::number);
    if (found == kCompressions.end() || !TIFFIsCODECConfigured(number))
      throw tiff_of_unread_kind(fmt::format("the compression {}", number));
    return *found;
  }

  void require_whole() const {
    const uint32_t pieces = TIFFIsTiled(file_.get()) ? TIFFNumberOfTiles(file_.get()) : TIFFNumberOfStrips(file_.get());
    for (uint32_t i = 0; i < pieces; ++i) {
      const uint64_t at = TIFFGetStrileOffset(file_.get(), i), count = TIFFGetStrileByteCount(file_.get(), i);
      if (at > bytes_ || count > bytes_ - at) throw file_.damaged();
    }
  }

  Kind read_kind(uint16_t compression) {
    Kind kind;
    const auto photometric = file_.number<uint16_t>(TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISWHITE);
    switch (photometric) {
      case PHOTOMETRIC_MINISWHITE:
      case PHOTOMETRIC_MINISBLACK:
        break;
      case PHOTOMETRIC_RGB:
        kind.colours = Colours::rgb;
        break;
      case PHOTOMETRIC_PALETTE:
        kind.colours = Colours::palette;
        break;
      case PHOTOMETRIC_SEPARATED:
        kind.colours = Colours::inks;
        break;
      case PHOTOMETRIC_YCBCR:
        kind.colours = file_.number<uint16_t>(TIFFTAG_SAMPLESPERPIXEL, 1) == 1 ? Colours::grey : Colours::rgb;
        if (compression != COMPRESSION_JPEG)
          throw tiff_of_unread_kind("colours as luminance and chrominance, and no JPEG");
        break;
      default:
        throw tiff_of_unread_kind(fmt::format("the colours {}", photometric));
    }
    kind.bits = file_.number<uint16_t>(TIFFTAG_BITSPERSAMPLE, 1);
    kind.samples = file_.number<uint16_t>(TIFFTAG_SAMPLESPERPIXEL, 1);
    kind.is_inverted = photometric == PHOTOMETRIC_MINISWHITE && kind.bits <= 8;
    kind.has_planes =
        kind.samples > 1 && file_.number<uint16_t>(TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
    require_known(kind, photometric);
    require_known_extra(kind);
    if (photometric == PHOTOMETRIC_YCBCR && kind.colours == Colours::rgb) {
      if (kind.has_planes) throw tiff_of_unread_kind("luminance and chrominance in planes of their own");
      TIFFSetField(file_.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    }
    return kind;
  }

  void require_known(const Kind& kind, uint16_t photometric) const {
    const auto format = file_.number<uint16_t>(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
    const bool is_plain = format == SAMPLEFORMAT_UINT;
    const bool is_signed_byte = format == SAMPLEFORMAT_INT && kind.bits == 8 && photometric == PHOTOMETRIC_MINISBLACK;
    if (!is_plain && !(is_signed_byte && kind.samples == 1))
      throw tiff_of_unread_kind(format == SAMPLEFORMAT_IEEEFP ? "floating-point values" : "values that are no bytes");
    const bool few = kind.bits == 1 || kind.bits == 2 || kind.bits == 4;
    const bool is_grey = kind.colours == Colours::grey, is_palette = kind.colours == Colours::palette;
    const bool is_deep = kind.bits == 16 && !is_palette;
    if (kind.bits != 8 && !is_deep && !((is_grey || is_palette) && few && kind.samples == 1))
      throw tiff_of_unread_kind(fmt::format("{} samples of {} bits a pixel", kind.samples, kind.bits));
    if (photometric == PHOTOMETRIC_YCBCR && kind.bits != 8)
      throw tiff_of_unread_kind(fmt::format("{} samples of {} bits a pixel", kind.samples, kind.bits));
    // libtiff takes the indices for grey.
    if (!is_palette && first_value_in_tiff(text_, TIFFTAG_PHOTOMETRIC) == PHOTOMETRIC_PALETTE)
      throw Error(Fault::corrupt, "TIFF without its palette");
    // Pillow's gaps.
    const bool is_reversed = file_.number<uint16_t>(TIFFTAG_FILLORDER, FILLORDER_MSB2LSB) == FILLORDER_LSB2MSB;
    if (kind.is_deep_grey() && text_[0] == 'M' && (is_reversed || photometric == PHOTOMETRIC_MINISWHITE))
      throw tiff_of_unread_kind("16 bits of grey, the highest byte first, and white as 0 or reversed bits");
    if (kind.has_planes && (kind.bits != 8 || is_reversed))
      throw tiff_of_unread_kind(fmt::format("planes of {} bits{}", kind.bits, is_reversed ? ", reversed" : ""));
    if (is_reversed &&
        (kind.samples > samples_of(kind.colours) || kind.colours == Colours::inks || (kind.bits == 16 && !is_grey)))
      throw tiff_of_unread_kind(fmt::format("reversed bits in {} samples of {} bits", kind.samples, kind.bits));
  }

  // Samples beyond the colours: alpha, or anything; they are dropped, but for alpha by which colours are multiplied.
  void require_known_extra(Kind& kind) const {
    const int extra = kind.samples - samples_of(kind.colours);
    uint16_t count = 0;
    const uint16_t* kinds = nullptr;
    if (TIFFGetField(file_.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) != 1) count = 0;
    const bool multiplied = count > 0 && kinds[0] == EXTRASAMPLE_ASSOCALPHA;
    const int most = kind.bits == 8 ? (kind.colours == Colours::rgb    ? 3
                                       : kind.colours == Colours::inks ? 2
                                                                       : 1)
                                    : (kind.colours == Colours::rgb ? 1 : 0);
    bool is_known = extra >= 0 && extra <= most && (!multiplied || kind.colours == Colours::rgb);
    for (int i = 1; i < count; ++i) is_known = is_known && kinds[i] == EXTRASAMPLE_UNSPECIFIED;
    if (count > 0 && kind.colours == Colours::inks) is_known = is_known && kinds[0] == EXTRASAMPLE_UNSPECIFIED;
    // Of files that do not describe a further sample, Pillow knows RGB with alpha.
    if (extra > 0 && count == 0) is_known = is_known && kind.colours == Colours::rgb && extra == 1 && !kind.has_planes;
    if (!is_known || (multiplied && kind.has_planes))
      throw tiff_of_unread_kind(fmt::format("{} samples of {} bits a pixel, {} of them beyond the colours",
                                            kind.samples, kind.bits, std::max(extra, 0)));
    kind.is_premultiplied = multiplied;
  }

  void read_palette() {
    std::array<const uint16_t*, 3> colours{};
    if (TIFFGetField(file_.get(), TIFFTAG_COLORMAP, &colours[0], &colours[1], &colours[2]) != 1)
      throw Error(Fault::corrupt, "TIFF without its palette");
    for (size_t i = 0; i < (size_t{1} << kind_.bits); ++i)
      for (size_t c = 0; c < 3; ++c) palette_[i][c] = static_cast<uint8_t>(colours[c][i] >> 8);
  }

  // Returns the thread's memory for a piece of the picture that libtiff decodes at once: whole rows.
  std::span<uint8_t> piece(uint64_t bytes, int64_t rows, int64_t width) {
    const int64_t row = (width * kind_.bits * (kind_.has_planes ? 1 : kind_.samples) + 7) / 8;
    if (bytes > kMostAtOnce) throw tiff_of_unread_kind(fmt::format("a strip or tile of {} MiB", bytes >> 20));
    if (bytes != static_cast<uint64_t>(row * rows)) throw file_.damaged();
    thread_local std::vector<uint8_t> memory;
    memory.resize(bytes);
    return memory;
  }

  void decode_strips(int plane, Image& out) {
    const int64_t rows = std::min<int64_t>(file_.number<uint32_t>(TIFFTAG_ROWSPERSTRIP, UINT32_MAX), size_.height);
    if (rows < 1) throw file_.damaged();
    for (int64_t y = 0; y < size_.height; y += rows) {
      const int64_t count = std::min(rows, size_.height - y);
      const std::span<uint8_t> strip =
          piece(TIFFVStripSize64(file_.get(), static_cast<uint32_t>(count)), count, size_.width);
      const uint32_t index = TIFFComputeStrip(file_.get(), static_cast<uint32_t>(y), static_cast<uint16_t>(plane));
      const auto bytes = static_cast<tmsize_t>(strip.size());
      if (TIFFReadEncodedStrip(file_.get(), index, strip.data(), bytes) != bytes || file_.has_errors())
        throw file_.damaged();
      const int64_t row = bytes / count;
      for (int64_t i = 0; i < count; ++i) show(strip.data() + i * row, {y + i, 0}, size_.width, plane, out);
    }
  }

  void decode_tiles(int plane, Image& out) {
    const auto width = int64_t{file_.number<uint32_t>(TIFFTAG_TILEWIDTH, 0)};
    const auto height = int64_t{file_.number<uint32_t>(TIFFTAG_TILELENGTH, 0)};
    if (width < 1 || height < 1 || width > INT32_MAX || height > INT32_MAX) throw file_.damaged();
    require_sane({{height, width}, 1}, bytes_, most_pixels_per_byte_);
    const std::span<uint8_t> tile = piece(TIFFTileSize64(file_.get()), height, width);
    const auto bytes = static_cast<tmsize_t>(tile.size());
    const int64_t row = bytes / height;
    for (int64_t y = 0; y < size_.height; y += height) {
      for (int64_t x = 0; x < size_.width; x += width) {
        const uint32_t index = TIFFComputeTile(file_.get(), static_cast<uint32_t>(x), static_cast<uint32_t>(y), 0,
                                               static_cast<uint16_t>(plane));
        if (TIFFReadEncodedTile(file_.get(), index, tile.data(), bytes) != bytes || file_.has_errors())
          throw file_.damaged();
        for (int64_t i = 0; i < std::min(height, size_.height - y); ++i)
          show(tile.data() + i * row, {y + i, x}, std::min(width, size_.width - x), plane, out);
      }
    }
  }

  // Sample `i` of a row, from 0 to 255. Of deep grey, as Pillow has it, 255 of all that is above.
  uint8_t sample(const uint8_t* row, int64_t i) const {
    if (kind_.bits == 8) return row[i];
    if (kind_.bits == 16) {
      uint16_t value;
      std::memcpy(&value, row + 2 * i, 2);
      return static_cast<uint8_t>(!kind_.is_deep_grey() ? value >> 8 : std::min<uint16_t>(value, 255));
    }
    const int64_t bit = i * kind_.bits;
    return static_cast<uint8_t>(row[bit / 8] >> (8 - kind_.bits - bit % 8) & ((1 << kind_.bits) - 1));
  }

  struct Place {
    int64_t y, x;
  };

  // Writes `count` pixels of a decoded row, or one of their samples, from a place of the picture on.
  void show(const uint8_t* row, Place to, int64_t count, int plane, Image& out) const {
    const int64_t channels = out.channels, stride = kind_.has_planes ? 1 : kind_.samples;
    uint8_t* at = out.pixels.data() + (to.y * out.size.width + to.x) * channels;
    const int scale = kind_.bits < 8 ? 255 / ((1 << kind_.bits) - 1) : 1;
    for (int64_t i = 0; i < count; ++i, at += channels) {
      const auto value = [&](int64_t s) { return sample(row, i * stride + s); };
      switch (kind_.colours) {
        case Colours::grey:
          *at = static_cast<uint8_t>(kind_.is_inverted ? 255 - value(0) * scale : value(0) * scale);
          break;
        case Colours::palette:
          std::ranges::copy(palette_[value(0)], at);
          break;
        case Colours::rgb:
        case Colours::inks: {
          const int inverted = has_inks() ? 255 : 0;
          if (kind_.has_planes) {
            at[plane] = static_cast<uint8_t>(value(0) ^ inverted);
            break;
          }
          for (int64_t c = 0; c < channels; ++c) at[c] = static_cast<uint8_t>(value(c) ^ inverted);
          if (kind_.is_premultiplied) divide(at, value(3));
        }
      }
    }
  }

  static void divide(uint8_t* colours, int alpha) {
    for (int c = 0; c < 3; ++c)
      colours[c] = static_cast<uint8_t>(alpha == 0 ? 0 : std::min(255, 255 * colours[c] / alpha));
  }

  OpenTiff file_;
  size_t bytes_;
  Size size_;
  Kind kind_;
  int64_t most_pixels_per_byte_ = 1;
  std::string_view text_;  // the whole file
  std::array<std::array<uint8_t, 3>, 256> palette_{};
};

}  // namespace

bool is_tiff(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), std::min<size_t>(file.size(), 4));
  using namespace std::string_view_literals;
  return text == "II*\0"sv || text == "MM\0*"sv || text == "II+\0"sv || text == "MM\0+"sv;
}

Header read_tiff_header(std::span<const std::byte> file) {
  const TiffFile tiff(file);
  Header header = tiff.stored_header();
  header.size = turned(header.size, tiff.orientation());
  return header;
}

void decode_tiff(std::span<const std::byte> file, Image& out) {
  TiffFile tiff(file);
  const Header header = tiff.stored_header();
  make_room(out, header, tiff.has_inks() ? 4 : header.channels);
  if (tiff.has_inks()) out.channels = 4;
  tiff.decode(out);
  if (tiff.has_inks()) inks_to_rgb(out);
  turn(out, tiff.orientation());
}

}  // namespace estrain::image
