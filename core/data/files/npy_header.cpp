#include "core/data/files/npy_header.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <string_view>

namespace estrain::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kNpySignature = "\x93NUMPY";

template <typename T>
T number_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

class NpyReader {
 public:
  NpyReader(const DataFile& file, const std::string& advice)
      : file_(file), bytes_(file.content.bytes), advice_(advice) {}

  NpyHeader read() {
    const std::string_view text = dictionary();
    if (value(text, "fortran_order").starts_with("True")) throw unfit("is in Fortran order");
    NpyHeader header;
    header.type = type(value(text, "descr"));
    header.length = length(value(text, "shape"));
    header.offset = offset_;
    return header;
  }

 private:
  Error unfit(const std::string& what) const { return unfit_array(file_, what, advice_); }

  std::string_view dictionary() {
    const size_t size = bytes_.size();
    if (size < 10) throw cut_short();
    const bool old = static_cast<uint8_t>(bytes_[6]) == 1;
    const size_t start = old ? 10 : 12;
    if (size < start) throw cut_short();
    const size_t length = old ? number_at<uint16_t>(bytes_.data() + 8) : number_at<uint32_t>(bytes_.data() + 8);
    if (length > size - start) throw cut_short();
    offset_ = start + length;
    return {reinterpret_cast<const char*>(bytes_.data()) + start, length};
  }

  // The text after 'key':, up to the end of the dictionary.
  std::string_view value(std::string_view text, std::string_view key) const {
    const size_t at = text.find(fmt::format("'{}':", key));
    if (at == text.npos) throw unfit(fmt::format("has a header without {}", key));
    text.remove_prefix(at + key.size() + 3);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return text;
  }

  // The text between the quotes.
  static std::string type(std::string_view text) {
    const size_t end = text.empty() ? text.npos : text.find(text.front(), 1);
    if (end == text.npos) return std::string(text.substr(0, text.find(',')));
    return std::string(text.substr(1, end - 1));
  }

  uint64_t length(std::string_view text) const {
    uint64_t length = 0;
    const bool opened = text.starts_with('(');
    const char* const end = text.data() + text.size();
    const auto [behind, error] = std::from_chars(text.data() + (opened ? 1 : 0), end, length);
    const bool closed = end - behind >= 2 && std::string_view(behind, 2) == ",)";
    if (!opened || error != std::errc() || !closed) {
      throw unfit(fmt::format("has the shape {}, not one dimension",
                              text.substr(0, std::min(text.find(')'), text.size()) + 1)));
    }
    return length;
  }

  Error cut_short() const { return Error::make(Fault::corrupt, "{}: truncated inside its header", file_.path); }

  const DataFile& file_;
  std::span<const std::byte> bytes_;
  const std::string& advice_;
  size_t offset_ = 0;
};

}  // namespace

Error unfit_array(const DataFile& file, const std::string& what, const std::string& advice) {
  return Error::make(Fault::corrupt, "{}: the array {}", file.path, what).advise(advice);
}

bool NpyHeader::is_in(const FileBytes& content) {
  const std::string_view start(reinterpret_cast<const char*>(content.data()),
                               std::min(content.size(), kNpySignature.size()));
  return start == kNpySignature;
}

NpyHeader NpyHeader::read(const DataFile& file, const std::string& advice) { return NpyReader(file, advice).read(); }

}  // namespace estrain::data
