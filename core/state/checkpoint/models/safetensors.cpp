#include "core/state/checkpoint/models/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files/input_file.h"
#include "core/base/json/json.h"
#include "core/base/json/json_text.h"
#include "core/state/checkpoint/bytes/byte_io.h"

namespace estrain::checkpoint {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMostHeader = 100'000'000;  // bytes, safetensors' own limit
constexpr int64_t kMostValues = 200'000;       // in the header: a state of 25,000 tensors has fewer
constexpr uint64_t kElementsAt = 64;           // the elements begin at a multiple of this
constexpr const char* kMetadata = "__metadata__";

// A type's word, its size in bytes, and the type's name in array_match.h if a state can have the type.
struct TypeWord {
  std::string_view word;
  uint64_t bytes;
  std::optional<DType> dtype;
};
constexpr std::array<TypeWord, 16> kTypes = {{{"F32", 4, DType::f32},
                                              {"F64", 8, DType::f64},
                                              {"I64", 8, DType::i64},
                                              {"U8", 1, DType::u8},
                                              {"BOOL", 1, DType::u8},
                                              {"I8", 1, {}},
                                              {"F8_E4M3", 1, {}},
                                              {"F8_E5M2", 1, {}},
                                              {"I16", 2, {}},
                                              {"U16", 2, {}},
                                              {"F16", 2, {}},
                                              {"BF16", 2, {}},
                                              {"I32", 4, DType::i32},
                                              {"U32", 4, {}},
                                              {"U64", 8, {}},
                                              {"C64", 8, {}}}};

const TypeWord& type_called(const std::string& word) {
  for (const TypeWord& type : kTypes)
    if (type.word == word) return type;
  throw Error::make(Fault::corrupt, "an unknown type, {}", word);
}

std::string_view word_of(DType dtype) {
  for (const TypeWord& type : kTypes)
    if (type.dtype == dtype) return type.word;
  throw Error(Fault::bug, "a type that safetensors files cannot hold");
}

uint64_t unsigned_number(const Json& json, const char* what) {
  if (!json.is_number_unsigned()) throw Error::make(Fault::corrupt, "{} that is not a whole number >= 0", what);
  return json.get<uint64_t>();
}

// Returns the bytes of an array; throws if no file can have this length.
uint64_t bytes_of(const std::vector<int64_t>& shape, uint64_t element) {
  uint64_t bytes = element;
  for (const int64_t length : shape) {
    if (length == 0) return 0;
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(length), &bytes))
      throw Error(Fault::corrupt, "a shape with more elements than any file has");
  }
  return bytes;
}

std::vector<int64_t> shape_of(const Json& json) {
  if (!json.is_array()) throw Error(Fault::corrupt, "no shape");
  std::vector<int64_t> shape;
  for (const Json& length : json) {
    const uint64_t number = unsigned_number(length, "a length");
    if (number > static_cast<uint64_t>(INT64_MAX)) throw Error(Fault::corrupt, "an impossible length");
    shape.push_back(static_cast<int64_t>(number));
  }
  return shape;
}

const Json& member(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw Error::make(Fault::corrupt, "no {}", key);
  return *found;
}

// Reads one entry of the header; `elements_at` and the next argument: start and size in bytes of the elements in the
// file.
Safetensor tensor_of(const std::string& name, const Json& entry, uint64_t elements_at, uint64_t elements_bytes) {
  if (!entry.is_object()) throw Error(Fault::corrupt, "not an object");
  const Json& word = member(entry, "dtype");
  if (!word.is_string()) throw Error(Fault::corrupt, "no type");
  const TypeWord& type = type_called(word.get<std::string>());
  const Json& offsets = member(entry, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) throw Error(Fault::corrupt, "no data_offsets");
  const uint64_t begin = unsigned_number(offsets[0], "an offset"), end = unsigned_number(offsets[1], "an offset");
  if (begin > end || end > elements_bytes)
    throw Error::make(Fault::corrupt, "data_offsets [{}, {}] outside its {} bytes of elements", begin, end,
                      elements_bytes);
  Safetensor tensor = {.name = name,
                       .dtype = std::string(type.dtype ? dtype_name(*type.dtype) : type.word),
                       .shape = shape_of(member(entry, "shape")),
                       .offset = elements_at + begin,
                       .bytes = end - begin};
  const uint64_t needed = bytes_of(tensor.shape, type.bytes);
  if (needed != tensor.bytes) throw Error::make(Fault::corrupt, "{} bytes for a shape of {}", tensor.bytes, needed);
  return tensor;
}

// Throws unless the tensors, sorted by offset, cover the elements from the first byte to the last without gaps.
void require_cover(const std::vector<Safetensor>& tensors, uint64_t elements_at, uint64_t length) {
  uint64_t at = elements_at;
  for (const Safetensor& tensor : tensors) {
    if (tensor.offset != at)
      throw Error::make(Fault::corrupt, "tensor {}: begins at byte {} of the file; the one before it ends at {}",
                        tensor.name, tensor.offset, at);
    at += tensor.bytes;
  }
  if (at != length)
    throw Error::make(Fault::corrupt, "its tensors end at byte {} of {}: it is truncated or has extra bytes at the end",
                      at, length);
}

std::vector<Safetensor> tensors_of(const std::string& header, uint64_t elements_at, uint64_t length) {
  if (measure_json(header).values > kMostValues) throw Error(Fault::corrupt, "a header with too many values");
  const Json json = parse_json(header, "the header");
  if (!json.is_object()) throw Error(Fault::corrupt, "a header that is not an object");
  std::vector<Safetensor> tensors;
  for (auto entry = json.begin(); entry != json.end(); ++entry) {
    if (entry.key() == kMetadata) continue;
    with_context("tensor " + entry.key(),
                 [&] { tensors.push_back(tensor_of(entry.key(), entry.value(), elements_at, length - elements_at)); });
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const Safetensor& a, const Safetensor& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  require_cover(tensors, elements_at, length);
  return tensors;
}

uint64_t header_length(int fd, uint64_t length) {
  static_assert(std::endian::native == std::endian::little);
  if (length < kLengthBytes) throw Error::make(Fault::corrupt, "not a safetensors file: it has {} bytes", length);
  uint64_t header = 0;
  read_bytes(fd, 0, reinterpret_cast<std::byte*>(&header), kLengthBytes);
  if (header > kMostHeader || header > length - kLengthBytes)
    throw Error::make(Fault::corrupt, "not a safetensors file, or truncated: a header of {} bytes in {}", header,
                      length);
  return header;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  return with_context(path, [&] {
    UniqueFd fd = open_input(path);
    const uint64_t length = length_of(fd.get());
    std::string header(header_length(fd.get(), length), '\0');
    read_bytes(fd.get(), kLengthBytes, reinterpret_cast<std::byte*>(header.data()), header.size());
    std::vector<Safetensor> tensors = tensors_of(header, kLengthBytes + header.size(), length);
    return SafetensorsFile(std::move(fd), std::move(tensors));
  });
}

void SafetensorsFile::read(size_t tensor, std::byte* out) const {
  read_bytes(fd_.get(), tensors_[tensor].offset, out, tensors_[tensor].bytes);
}

void SafetensorsFile::read_part(size_t tensor, uint64_t first, uint64_t bytes, std::byte* out) const {
  read_bytes(fd_.get(), tensors_[tensor].offset + first, out, bytes);
}

bool is_safetensors(const std::string& path) {
  if (path.ends_with(".safetensors")) return true;
  const UniqueFd fd = open_input(path);
  const uint64_t length = length_of(fd.get());
  if (length < kLengthBytes + 2) return false;
  std::array<std::byte, kLengthBytes + 1> begin;
  read_bytes(fd.get(), 0, begin.data(), begin.size());
  uint64_t header = 0;
  std::memcpy(&header, begin.data(), kLengthBytes);
  return header <= length - kLengthBytes && begin.back() == std::byte{'{'};
}

std::string safetensors_header(const std::vector<SafetensorForm>& tensors,
                               const std::vector<std::pair<std::string, std::string>>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json[kMetadata] = Json::object();
  for (const auto& [key, value] : metadata) json[kMetadata][key] = value;
  uint64_t at = 0;
  for (const SafetensorForm& tensor : tensors) {
    const uint64_t end = at + bytes_of(tensor.shape, element_size(tensor.dtype));
    json[tensor.name] = {{"dtype", word_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string header = json_text(json);
  header.resize((kLengthBytes + header.size() + kElementsAt - 1) / kElementsAt * kElementsAt - kLengthBytes, ' ');
  const uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), kLengthBytes);
  return out + header;
}

}  // namespace estrain::checkpoint
