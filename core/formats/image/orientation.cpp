#include "core/formats/image/orientation.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/formats/image/formats.h"

namespace estrain::image {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kExif = "Exif\0\0"sv, kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
constexpr uint32_t kOrientationTag = 0x0112;

std::string_view text_of(std::span<const std::byte> file) {
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

// Numbers of either byte order at any place; nothing beyond the end.
class Numbers {
 public:
  Numbers(std::string_view bytes, bool is_big_endian) : bytes_(bytes), is_big_endian_(is_big_endian) {}

  std::optional<uint32_t> at(size_t place, size_t width) const {
    if (place > bytes_.size() || bytes_.size() - place < width) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < width; ++i)
      value = value << 8 | static_cast<uint8_t>(bytes_[place + (is_big_endian_ ? i : width - 1 - i)]);
    return value;
  }

 private:
  std::string_view bytes_;
  bool is_big_endian_;
};

// Bytes of an integer of a type of TIFF; 0 for other types.
size_t width_of_type(uint32_t type) {
  switch (type) {
    case 6:  // signed byte
      return 1;
    case 3:  // unsigned and signed 16 bits
    case 8:
      return 2;
    case 4:  // unsigned and signed 32 bits, offset
    case 9:
    case 13:
      return 4;
    default:
      return 0;
  }
}

// Reads the first value of an entry at `place`. Returns nothing for an entry that Pillow skips.
std::optional<uint32_t> first_value(const Numbers& numbers, size_t place) {
  const size_t width = width_of_type(numbers.at(place + 2, 2).value_or(0));
  const uint64_t bytes = uint64_t{width} * numbers.at(place + 4, 4).value_or(0);
  if (bytes == 0) return std::nullopt;
  if (bytes <= 4) return numbers.at(place + 8, width);
  const std::optional<uint32_t> at = numbers.at(place + 8, 4);
  if (!at || !numbers.at(*at + bytes - 1, 1)) return std::nullopt;
  return numbers.at(*at, width);
}

std::optional<uint32_t> orientation_in_exif(std::string_view exif) {
  for (int i = 0; i < 2 && exif.starts_with(kExif); ++i) exif.remove_prefix(kExif.size());
  return first_value_in_tiff(exif, kOrientationTag);
}

// Finds tiff:Orientation="6" or tiff:Orientation>6.
std::optional<uint32_t> told_in_xmp(std::string_view xmp) {
  constexpr std::string_view name = "tiff:Orientation";
  for (size_t at = xmp.find(name); at != xmp.npos; at = xmp.find(name, at + 1)) {
    std::string_view rest = xmp.substr(at + name.size());
    const size_t skipped = rest.starts_with("=\"") ? 2 : rest.starts_with(">") ? 1 : 0;
    rest.remove_prefix(skipped);
    if (skipped > 0 && !rest.empty() && rest[0] >= '0' && rest[0] <= '9') return static_cast<uint32_t>(rest[0] - '0');
  }
  return std::nullopt;
}

// Goes over the segments before the first scan of a JPEG file.
class JpegMarks {
 public:
  explicit JpegMarks(std::string_view file) : file_(file), numbers_(file, /*is_big_endian=*/true) {
    while (next()) {
    }
  }

  std::optional<uint32_t> orientation() const {
    const std::optional<uint32_t> told = orientation_in_exif(joined_.empty() ? exif_ : joined_);
    return told ? told : told_in_xmp(xmp_);
  }

 private:
  bool next() {
    at_ = file_.find('\xff', at_);
    at_ = at_ == file_.npos ? at_ : file_.find_first_not_of('\xff', at_);
    if (at_ == file_.npos) return false;
    const auto marker = static_cast<uint8_t>(file_[at_++]);
    if (marker == 0xda || marker == 0xd9) return false;                     // scan, end
    if (marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd8)) return true;  // without a length
    const std::optional<uint32_t> length = numbers_.at(at_, 2);
    if (!length || *length < 2 || file_.size() - at_ < *length) return false;
    if (marker == 0xe1) take(file_.substr(at_ + 2, *length - 2));
    at_ += *length;
    return true;
  }

  void take(std::string_view segment) {
    if (segment.starts_with(kXmp)) xmp_ = segment;
    if (!segment.starts_with(kExif)) return;
    if (exif_.empty()) {
      exif_ = segment;
      return;
    }
    if (joined_.empty()) joined_ = exif_;
    joined_ += segment.substr(kExif.size());
  }

  std::string_view file_;
  Numbers numbers_;
  size_t at_ = 2;
  std::string_view exif_, xmp_;
  std::string joined_;  // of several segments
};

std::optional<uint32_t> orientation_in_webp(std::span<const std::byte> file) {
  const Notes notes = read_webp_notes(file);
  const std::optional<uint32_t> told = orientation_in_exif(notes.exif);
  return told ? told : told_in_xmp(notes.xmp);
}

std::optional<uint32_t> orientation_in_png(std::string_view file) {
  const Numbers numbers(file, /*is_big_endian=*/true);
  std::string_view exif;
  size_t at = 8;
  while (const std::optional<uint32_t> length = numbers.at(at, 4)) {
    if (file.size() - at < 12 + size_t{*length}) break;
    const std::string_view name = file.substr(at + 4, 4);
    if (name == "eXIf") exif = file.substr(at + 8, *length);
    if (name == "IEND") break;
    at += 12 + size_t{*length};
  }
  return orientation_in_exif(exif);
}

int known_or_upright(std::optional<uint32_t> told) {
  return told && *told >= 1 && *told <= 8 ? static_cast<int>(*told) : upright;
}

bool exchanges_sides(int orientation) { return orientation >= 5; }

// Where the pixels of the result's rows are in the stored picture: pixel (y, x) at first + y * row + x * column.
struct Walk {
  int64_t first, row, column;
};

Walk walk_of(const Size& stored, int orientation) {
  const int64_t width = stored.width, last = stored.height * width - 1, lower_left = last - (width - 1);
  switch (orientation) {
    case 2:
      return {width - 1, width, -1};
    case 3:
      return {last, -width, -1};
    case 4:
      return {lower_left, -width, 1};
    case 5:
      return {0, 1, width};
    case 6:
      return {lower_left, 1, -width};
    case 7:
      return {last, -1, -width};
    default:
      return {width - 1, -1, width};
  }
}

}  // namespace

std::optional<uint32_t> first_value_in_tiff(std::string_view tiff, uint32_t tag) {
  const bool is_big_endian = tiff.starts_with("MM\0*"sv);
  if (!is_big_endian && !tiff.starts_with("II*\0"sv)) return std::nullopt;
  const Numbers numbers(tiff, is_big_endian);
  const std::optional<uint32_t> directory = numbers.at(4, 4);
  const uint32_t entries = directory ? numbers.at(*directory, 2).value_or(0) : 0;
  for (size_t i = 0; i < entries; ++i) {
    const size_t place = size_t{*directory} + 2 + 12 * i;
    if (!numbers.at(place + 8, 4)) break;
    if (numbers.at(place, 2) != tag) continue;
    if (const std::optional<uint32_t> value = first_value(numbers, place)) return value;
  }
  return std::nullopt;
}

int orientation_in_xmp(std::string_view xmp) { return known_or_upright(told_in_xmp(xmp)); }

int orientation_of(std::span<const std::byte> file) {
  std::optional<uint32_t> told;
  if (is_jpeg(file)) told = JpegMarks(text_of(file)).orientation();
  if (is_png(file)) told = orientation_in_png(text_of(file));
  if (is_webp(file)) told = orientation_in_webp(file);
  return known_or_upright(told);
}

Size turned(const Size& stored, int orientation) {
  return exchanges_sides(orientation) ? Size{stored.width, stored.height} : stored;
}

void turn(Image& picture, int orientation) {
  if (orientation == upright) return;
  thread_local std::vector<uint8_t> result;
  result.resize(picture.pixels.size());
  const Walk walk = walk_of(picture.size, orientation);
  picture.size = turned(picture.size, orientation);
  uint8_t* out = result.data();
  for (int64_t y = 0; y < picture.size.height; ++y) {
    const uint8_t* pixel = picture.pixels.data() + (walk.first + y * walk.row) * picture.channels;
    for (int64_t x = 0; x < picture.size.width; ++x, pixel += walk.column * picture.channels)
      for (int64_t c = 0; c < picture.channels; ++c) *out++ = pixel[c];
  }
  std::swap(picture.pixels, result);
}

}  // namespace estrain::image
