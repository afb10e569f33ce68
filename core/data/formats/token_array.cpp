#include "core/data/formats/token_array.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <string_view>

#include "core/base/error.h"

namespace estrain::data {
namespace {

using Word = TokenArray::Word;

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kNpySignature = "\x93NUMPY";
constexpr size_t kLlmcHeader = 256 * sizeof(int32_t);

// Reads by bytes, since the tokens of a .npy file may begin at an odd address.
template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

size_t bytes_of(Word word) {
  switch (word) {
    case Word::u8:
      return 1;
    case Word::u16:
      return 2;
    case Word::u32:
    case Word::i32:
      return 4;
    case Word::i64:
      return 8;
  }
  return 0;
}

struct Layout {
  size_t offset = 0;
  uint64_t tokens = 0;
  Word word = Word::u16;
};

// The header of a .npy file: a Python dictionary in a line of ASCII, with three keys in any order.
class NpyHeader {
 public:
  NpyHeader(const DataFile& file) : path_(file.path), bytes_(file.content.bytes) {}

  Layout read() {
    const std::string_view text = dictionary();
    if (value(text, "fortran_order").starts_with("True")) throw unfit("is in Fortran order");
    Layout layout;
    layout.word = word(value(text, "descr"));
    layout.tokens = length(value(text, "shape"));
    layout.offset = offset_;
    return layout;
  }

 private:
  Error unfit(const std::string& what) const {
    return Error::make(Fault::corrupt, "{}: the array {}", path_, what)
        .advise("save tokens as one dimension of uint16 or uint32: numpy.save(path, tokens.astype(numpy.uint16))");
  }

  std::string_view dictionary() {
    const size_t size = bytes_.size();
    if (size < 10) throw cut_short();
    const bool old = static_cast<uint8_t>(bytes_[6]) == 1;
    const size_t start = old ? 10 : 12;
    if (size < start) throw cut_short();
    const size_t length = old ? load<uint16_t>(bytes_.data() + 8) : load<uint32_t>(bytes_.data() + 8);
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

  Word word(std::string_view text) const {
    constexpr std::pair<std::string_view, Word> known[] = {
        {"'|u1'", Word::u8}, {"'<u2'", Word::u16}, {"'<u4'", Word::u32}, {"'<i4'", Word::i32}, {"'<i8'", Word::i64}};
    for (const auto& [name, word] : known)
      if (text.starts_with(name)) return word;
    throw unfit(fmt::format("holds {}", text.substr(0, text.find(','))));
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

  Error cut_short() const { return Error::make(Fault::corrupt, "{}: truncated inside its header", path_); }

  const std::string& path_;
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

std::optional<Layout> llmc_layout(const FileBytes& file) {
  if (file.size() < kLlmcHeader) return std::nullopt;
  const auto word = [&](size_t i) { return load<int32_t>(file.data() + i * sizeof(int32_t)); };
  const bool short_tokens = word(0) == 20240520 && word(1) == 1, long_tokens = word(0) == 20240801 && word(1) == 7;
  if (!short_tokens && !long_tokens) return std::nullopt;
  return Layout{kLlmcHeader, static_cast<uint32_t>(word(2)), short_tokens ? Word::u16 : Word::u32};
}

Layout flat_layout(const DataFile& file, spec::TokenType type) {
  const Word word = type == spec::TokenType::u16 ? Word::u16 : Word::u32;
  if (file.content.size() % bytes_of(word) != 0) {
    throw Error::make(Fault::corrupt, "{}: {} bytes are not a whole number of {} tokens", file.path,
                      file.content.size(), name_of(word))
        .advise("download the file again, or set data.token_type to its type");
  }
  return {0, file.content.size() / bytes_of(word), word};
}

Layout layout_of(const DataFile& file, spec::TokenType flat) {
  const FileBytes& content = file.content;
  const std::string_view start(reinterpret_cast<const char*>(content.data()),
                               std::min(content.size(), kNpySignature.size()));
  if (start == kNpySignature) return NpyHeader(file).read();
  if (const std::optional<Layout> layout = llmc_layout(content)) return *layout;
  return flat_layout(file, flat);
}

}  // namespace

const char* name_of(Word word) {
  constexpr const char* names[] = {"uint8", "uint16", "uint32", "int32", "int64"};
  return names[static_cast<size_t>(word)];
}

TokenArray TokenArray::of(const DataFile& file, spec::TokenType flat) {
  const Layout layout = layout_of(file, flat);
  const uint64_t present = (file.content.size() - layout.offset) / bytes_of(layout.word);
  const bool odd = (file.content.size() - layout.offset) % bytes_of(layout.word) != 0;
  if (layout.tokens != present || odd) {
    throw Error::make(Fault::corrupt, "{}: {}: its header declares {} {} tokens, but {} bytes follow", file.path,
                      layout.tokens > present ? "truncated" : "too long", layout.tokens, name_of(layout.word),
                      file.content.size() - layout.offset)
        .advise("download the file again");
  }
  return TokenArray(file.content, layout.offset, static_cast<int64_t>(layout.tokens), layout.word);
}

TokenArray TokenArray::of_bytes(const FileBytes& bytes) {
  return TokenArray(bytes, 0, static_cast<int64_t>(bytes.size()), Word::u8);
}

template <typename Body>
auto TokenArray::visit(Body body) const {
  switch (word_) {
    case Word::u8:
      return body(uint8_t{});
    case Word::u16:
      return body(uint16_t{});
    case Word::u32:
      return body(uint32_t{});
    case Word::i32:
      return body(int32_t{});
    case Word::i64:
      break;
  }
  return body(int64_t{});
}

void TokenArray::copy(int64_t first, int64_t count, int64_t* out) const {
  visit([&](auto type) {
    const std::byte* at = begin_ + static_cast<size_t>(first) * sizeof(type);
    for (int64_t i = 0; i < count; ++i, at += sizeof(type)) out[i] = static_cast<int64_t>(load<decltype(type)>(at));
  });
}

int64_t TokenArray::at(int64_t index) const {
  int64_t token = 0;
  copy(index, 1, &token);
  return token;
}

std::optional<int64_t> TokenArray::find_outside(int64_t classes, int64_t first, int64_t count) const {
  constexpr int64_t block = 4096;
  return visit([&](auto type) -> std::optional<int64_t> {
    using T = decltype(type);
    for (int64_t begin = first; begin < first + count; begin += block) {
      const int64_t end = std::min(begin + block, first + count);
      const std::byte* at = begin_ + static_cast<size_t>(begin) * sizeof(T);
      int64_t wrong = 0;  // counted without a branch, for a vectorised loop
      for (int64_t i = begin; i < end; ++i, at += sizeof(T))
        wrong += static_cast<uint64_t>(static_cast<int64_t>(load<T>(at))) >= static_cast<uint64_t>(classes);
      if (wrong == 0) continue;
      at = begin_ + static_cast<size_t>(begin) * sizeof(T);
      for (int64_t i = begin;; ++i, at += sizeof(T))
        if (static_cast<uint64_t>(static_cast<int64_t>(load<T>(at))) >= static_cast<uint64_t>(classes)) return i;
    }
    return std::nullopt;
  });
}

}  // namespace estrain::data
