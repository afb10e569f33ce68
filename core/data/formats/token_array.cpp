#include "core/data/formats/token_array.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/error.h"
#include "core/data/files/npy_header.h"

namespace estrain::data {
namespace {

using Word = TokenArray::Word;

static_assert(std::endian::native == std::endian::little);

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

Layout npy_layout(const DataFile& file) {
  const std::string advice =
      "save tokens as one dimension of uint16 or uint32: numpy.save(path, tokens.astype(numpy.uint16))";
  constexpr std::pair<const char*, Word> known[] = {
      {"|u1", Word::u8}, {"<u2", Word::u16}, {"<u4", Word::u32}, {"<i4", Word::i32}, {"<i8", Word::i64}};
  const NpyHeader header = NpyHeader::read(file, advice);
  for (const auto& [type, word] : known)
    if (header.type == type) return {header.offset, header.length, word};
  throw unfit_array(file, fmt::format("holds '{}'", header.type), advice);
}

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
  if (NpyHeader::is_in(content)) return npy_layout(file);
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

TokenShards::TokenShards(std::vector<Shard> shards) : shards_(std::move(shards)) {
  int64_t end = 0;
  for (const Shard& shard : shards_) ends_.push_back(end += shard.tokens.size());
}

size_t TokenShards::shard_of(int64_t index) const {
  return static_cast<size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
}

template <typename Body>
void TokenShards::visit(int64_t first, int64_t count, Body body) const {
  for (size_t shard = shard_of(first); count > 0; ++shard) {
    const int64_t here = std::min(count, ends_[shard] - first);
    if (here > 0 && !body(shards_[shard].tokens, first - begin_of(shard), here)) return;
    first += here;
    count -= here;
  }
}

void TokenShards::copy(int64_t first, int64_t count, int64_t* out) const {
  visit(first, count, [&](const TokenArray& tokens, int64_t begin, int64_t size) {
    tokens.copy(begin, size, out);
    out += size;
    return true;
  });
}

std::optional<int64_t> TokenShards::find_outside(int64_t classes, int64_t first, int64_t count) const {
  std::optional<int64_t> outside;
  int64_t passed = first;
  visit(first, count, [&](const TokenArray& tokens, int64_t begin, int64_t size) {
    if (const std::optional<int64_t> here = tokens.find_outside(classes, begin, size)) outside = passed + *here - begin;
    passed += size;
    return !outside;
  });
  return outside;
}

TokenShards::Place TokenShards::place_of(int64_t index) const {
  const size_t shard = shard_of(index);
  return {shards_[shard].path, index - begin_of(shard)};
}

int64_t TokenShards::at(int64_t index) const {
  int64_t token = 0;
  copy(index, 1, &token);
  return token;
}

}  // namespace estrain::data
