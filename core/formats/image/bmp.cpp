#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

#include "core/formats/image/formats.h"

namespace estrain::image {
namespace {

constexpr int64_t kMostBmpPixelsPerByte = 128;  // a run of 255 pixels takes two bytes
constexpr size_t kFileHeader = 14, kMasksAt = kFileHeader + 40;
constexpr uint32_t kMostColours = 65536;

enum Compression : uint32_t { raw_pixels = 0, runs_of_bytes = 1, runs_of_halves = 2, masked_pixels = 3 };

using Masks = std::array<uint32_t, 3>;  // of red, green and blue

constexpr Masks kMasks15 = {0x7c00, 0x3e0, 0x1f}, kMasks16 = {0xf800, 0x7e0, 0x1f}, kMasks24 = {0xff0000, 0xff00, 0xff};

Error bmp_of_unread_kind(const std::string& kind) {
  return Error::make(Fault::corrupt, "BMP with {}", kind).advise("convert it to PNG");
}

// The bits of a colour in a pixel, scaled to a byte.
uint8_t scaled_to_byte(uint32_t pixel, uint32_t mask) {
  const int shift = __builtin_ctz(mask);
  return static_cast<uint8_t>(((pixel & mask) >> shift) * 255 / (mask >> shift));
}

class BmpFile {
 public:
  explicit BmpFile(std::span<const std::byte> file) : file_(file) {
    read_sizes();
    require_known();
    if (bits_ <= 8) read_palette();
    if (pixels_at_ == 0) pixels_at_ = kMasksAt + (compression_ == masked_pixels ? 12 : 0);
  }

  Header header() const {
    const Header header = {{height_, width_}, bits_ <= 8 && is_grey_ ? 1 : 3};
    require_sane(header, file_.size(), kMostBmpPixelsPerByte);
    if (!has_runs()) (void)stored_row(0), (void)stored_row(height_ - 1);
    return header;
  }

  void decode(Image& out) const {
    if (has_runs()) return decode_runs(out);
    for (int64_t y = 0; y < height_; ++y) {
      uint8_t* row = out.pixels.data() + y * width_ * out.channels;
      bits_ <= 8 ? write_looked_up(stored_row(y), out.channels, row) : write_masked(stored_row(y), row);
    }
  }

 private:
  uint32_t number(size_t at, size_t width) const {
    if (at > file_.size() || file_.size() - at < width) throw Error(Fault::corrupt, "truncated BMP");
    uint32_t value = 0;
    for (size_t i = 0; i < width; ++i) value |= std::to_integer<uint32_t>(file_[at + i]) << (8 * i);
    return value;
  }
  uint8_t byte(size_t at) const { return static_cast<uint8_t>(number(at, 1)); }

  void read_sizes() {
    pixels_at_ = number(10, 4);
    header_bytes_ = number(kFileHeader, 4);
    if (header_bytes_ == 12) {
      width_ = number(18, 2);
      height_ = number(20, 2);
      bits_ = number(24, 2);
      palette_entry_ = 3;
    } else {
      width_ = number(18, 4);
      const uint32_t height = number(22, 4);
      is_from_top_ = height >> 24 == 0xff;  // a negative number
      height_ = is_from_top_ ? (int64_t{1} << 32) - height : height;
      bits_ = number(28, 2);
      compression_ = number(30, 4);
      colours_ = number(46, 4);
    }
    if (width_ > INT32_MAX || height_ > INT32_MAX)
      throw Error::make(Fault::corrupt, "{} x {} pixels: more than {}", height_, width_, most_pixels);
  }

  void require_known() {
    const auto is_among = [](uint32_t value, std::initializer_list<uint32_t> values) {
      return std::ranges::find(values, value) != values.end();
    };
    if (!is_among(header_bytes_, {12, 40, 52, 56, 64, 108, 124}))
      throw Error::make(Fault::corrupt, "BMP with a header of {} bytes", header_bytes_);
    if (!is_among(bits_, {1, 4, 8, 16, 24, 32})) throw bmp_of_unread_kind(fmt::format("{} bits a pixel", bits_));
    if (compression_ > masked_pixels) throw bmp_of_unread_kind(fmt::format("the compression {}", compression_));
    if ((compression_ == runs_of_bytes && bits_ != 8) || (compression_ == runs_of_halves && bits_ != 4))
      throw bmp_of_unread_kind(fmt::format("runs of {} bits", bits_));
    if (bits_ == 16) masks_ = kMasks15;
    if (compression_ == masked_pixels) read_masks();
  }

  void read_masks() {
    masks_ = {number(kMasksAt, 4), number(kMasksAt + 4, 4), number(kMasksAt + 8, 4)};
    const std::initializer_list<Masks> whole = {
        kMasks24, {0xff000000, 0xff0000, 0xff00}, {0xff000000, 0xff00, 0xff}, {0xff, 0xff00, 0xff0000}};
    const bool is_known = bits_ == 32   ? std::ranges::find(whole, masks_) != whole.end() || masks_ == Masks{}
                          : bits_ == 24 ? masks_ == kMasks24
                                        : bits_ == 16 && (masks_ == kMasks15 || masks_ == kMasks16);
    if (!is_known)
      throw bmp_of_unread_kind(
          fmt::format("{} bits a pixel and masks {:x} {:x} {:x}", bits_, masks_[0], masks_[1], masks_[2]));
    if (masks_ == Masks{}) masks_ = kMasks24;
  }

  // A palette of greys in their order makes a grey image, as in Pillow. Colours that the file lacks are black.
  void read_palette() {
    if (colours_ == 0) colours_ = 1u << bits_;
    if (colours_ > kMostColours) throw Error::make(Fault::corrupt, "BMP with a palette of {} colours", colours_);
    const size_t palette_at = kFileHeader + header_bytes_, behind = palette_at + size_t{palette_entry_} * colours_;
    if (pixels_at_ == palette_at || pixels_at_ == 0) pixels_at_ = behind;
    is_grey_ = file_.size() >= behind;
    for (uint32_t i = 0; i < colours_; ++i) {
      const size_t at = palette_at + size_t{palette_entry_} * i;
      if (at + 3 > file_.size()) break;
      const std::array<uint8_t, 3> colour = {byte(at + 2), byte(at + 1), byte(at)};
      const auto grey = static_cast<uint8_t>(colours_ == 2 ? 255 * i : i);
      is_grey_ = is_grey_ && colour == std::array<uint8_t, 3>{grey, grey, grey};
      if (i < palette_.size()) palette_[i] = colour;
    }
    for (size_t i = 0; is_grey_ && i < palette_.size(); ++i) palette_[i].fill(grey_of(i));
  }
  uint8_t grey_of(size_t index) const { return static_cast<uint8_t>(colours_ > 2 ? index : index == 0 ? 0 : 255); }

  const uint8_t* stored_row(int64_t y) const {
    const auto used = static_cast<size_t>((width_ * bits_ + 7) / 8), stride = (used + 3) / 4 * 4;
    const size_t at = pixels_at_ + stride * static_cast<size_t>(is_from_top_ ? y : height_ - 1 - y);
    if (at > file_.size() || file_.size() - at < used) throw Error(Fault::corrupt, "truncated BMP");
    return reinterpret_cast<const uint8_t*>(file_.data()) + at;
  }

  uint8_t* write_colour(size_t index, int64_t channels, uint8_t* out) const {
    return std::copy_n(palette_[index].begin(), channels, out);
  }

  void write_looked_up(const uint8_t* row, int64_t channels, uint8_t* out) const {
    const int64_t in_byte = 8 / bits_;
    for (int64_t x = 0; x < width_; ++x) {
      const int64_t shift = bits_ * (in_byte - 1 - x % in_byte);
      out = write_colour(row[x / in_byte] >> shift & ((1 << bits_) - 1), channels, out);
    }
  }

  void write_masked(const uint8_t* row, uint8_t* out) const {
    const size_t width = static_cast<size_t>(bits_ / 8);
    for (int64_t x = 0; x < width_; ++x, row += width) {
      uint32_t pixel = 0;
      for (size_t i = 0; i < width; ++i) pixel |= uint32_t{row[i]} << (8 * i);
      for (const uint32_t mask : masks_) *out++ = scaled_to_byte(pixel, mask);
    }
  }

  // Writes rows in the order of the file, as indices, then as colours.
  void decode_runs(Image& out) const {
    const std::vector<uint8_t> indices = indices_of_runs();
    for (int64_t y = 0; y < height_; ++y) {
      const uint8_t* row = indices.data() + (is_from_top_ ? y : height_ - 1 - y) * width_;
      uint8_t* at = out.pixels.data() + y * width_ * out.channels;
      for (int64_t x = 0; x < width_; ++x) at = write_colour(row[x], out.channels, at);
    }
  }

  std::vector<uint8_t> indices_of_runs() const;
  bool has_runs() const { return compression_ == runs_of_bytes || compression_ == runs_of_halves; }

  std::span<const std::byte> file_;
  size_t pixels_at_ = 0;
  uint32_t header_bytes_ = 0, bits_ = 0, compression_ = raw_pixels, colours_ = 0, palette_entry_ = 4;
  int64_t width_ = 0, height_ = 0;
  bool is_from_top_ = false, is_grey_ = false;
  Masks masks_ = kMasks24;
  std::array<std::array<uint8_t, 3>, 256> palette_{};
};

// Unpacks run lengths, with Pillow's answers where a file breaks the rules: a run ends with its row, an end of line in
// the middle of a row fills the row with index 0.
class Runs {
 public:
  Runs(std::span<const std::byte> file, size_t at, bool halves, int64_t width, int64_t height)
      : file_(file),
        at_(std::min(at, file.size())),
        halves_(halves),
        width_(width),
        wanted_(static_cast<size_t>(width * height)) {
    indices_.reserve(wanted_);
  }

  std::vector<uint8_t> unpacked() {
    while (indices_.size() < wanted_ && has(2)) {
      const uint8_t count = next(), value = next();
      if (count > 0) {
        run(count, value);
      } else if (value == 0) {
        skip((row() - static_cast<int64_t>(indices_.size()) % row()) % row());
        column_ = 0;
      } else if (value == 1 || !escape(value)) {
        break;
      }
    }
    if (indices_.size() < wanted_) throw Error(Fault::corrupt, "truncated BMP");
    indices_.resize(wanted_);
    return std::move(indices_);
  }

 private:
  int64_t row() const { return width_; }
  bool has(size_t bytes) const { return file_.size() - at_ >= bytes; }
  uint8_t next() { return std::to_integer<uint8_t>(file_[at_++]); }
  void skip(int64_t pixels) { indices_.resize(std::min(wanted_, indices_.size() + static_cast<size_t>(pixels)), 0); }
  void put(int64_t i, uint8_t value) {
    indices_.push_back(!halves_ ? value : static_cast<uint8_t>(i % 2 == 0 ? value >> 4 : value & 15));
  }

  void run(uint8_t count, uint8_t value) {
    const int64_t fits = std::clamp<int64_t>(width_ - column_, 0, count);
    for (int64_t i = 0; i < fits; ++i) put(i, value);
    column_ += fits;
  }

  // Reads a jump, or a row of single pixels. Returns whether more may follow.
  bool escape(uint8_t kind) {
    if (kind == 2) {
      if (!has(2)) return false;
      const int64_t right = next(), up = next();
      skip(right + up * width_);
      column_ = static_cast<int64_t>(indices_.size()) % width_;
      return true;
    }
    const int64_t count = std::min<int64_t>(kind, static_cast<int64_t>(wanted_ - indices_.size()));
    const auto bytes = static_cast<size_t>(halves_ ? (count + 1) / 2 : count);
    if (!has(bytes)) return false;
    for (int64_t i = 0; i < count; ++i)
      put(i, std::to_integer<uint8_t>(file_[at_ + static_cast<size_t>(halves_ ? i / 2 : i)]));
    at_ += bytes;
    column_ += kind;
    if (at_ % 2 != 0 && has(1)) ++at_;
    return true;
  }

  std::span<const std::byte> file_;
  size_t at_;
  bool halves_;
  int64_t width_, column_ = 0;
  size_t wanted_;
  std::vector<uint8_t> indices_;
};

std::vector<uint8_t> BmpFile::indices_of_runs() const {
  return Runs(file_, pixels_at_, compression_ == runs_of_halves, width_, height_).unpacked();
}

}  // namespace

bool is_bmp(std::span<const std::byte> file) {
  return file.size() >= 2 && file[0] == std::byte{'B'} && file[1] == std::byte{'M'};
}

Header read_bmp_header(std::span<const std::byte> file) { return BmpFile(file).header(); }

void decode_bmp(std::span<const std::byte> file, Image& out) {
  const BmpFile bmp(file);
  const Header header = bmp.header();
  make_room(out, header, header.channels);
  bmp.decode(out);
}

}  // namespace estrain::image
