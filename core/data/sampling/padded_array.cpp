#include "core/data/sampling/padded_array.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/base/error.h"

namespace estrain::data {
namespace {

constexpr std::string_view kLengths = "_lengths", kMask = "_mask";

template <typename T>
std::optional<std::vector<std::byte>> exactly(double value) {
  if constexpr (std::is_integral_v<T>) {
    if (value != std::floor(value) || value < static_cast<double>(std::numeric_limits<T>::min()) ||
        value > static_cast<double>(std::numeric_limits<T>::max()) || std::fabs(value) > 9e15)
      return std::nullopt;
  }
  const T element = static_cast<T>(value);
  std::vector<std::byte> bytes(sizeof element);
  std::memcpy(bytes.data(), &element, sizeof element);
  return bytes;
}

// An element of the type; nothing if the type does not have the value.
std::optional<std::vector<std::byte>> element_of(program::ScalarType type, double value) {
  switch (type) {
    case program::ScalarType::f32:
      return exactly<float>(value);
    case program::ScalarType::f64:
      return exactly<double>(value);
    case program::ScalarType::i8:
      return exactly<int8_t>(value);
    case program::ScalarType::i16:
      return exactly<int16_t>(value);
    case program::ScalarType::i32:
      return exactly<int32_t>(value);
    case program::ScalarType::i64:
      return exactly<int64_t>(value);
    case program::ScalarType::u8:
      return exactly<uint8_t>(value);
    case program::ScalarType::boolean:
      return value == 0 || value == 1 ? exactly<uint8_t>(value) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// data.pad_values: the value of each array.
std::map<std::string, double> pad_values(const spec::DataSection& section) {
  std::map<std::string, double> values;
  for (const std::string& text : section.pad_values) {
    const size_t equals = text.rfind('=');
    double value = 0;
    const char* end = text.data() + text.size();
    const bool is_pair = equals != text.npos && equals > 0;
    const auto [parsed, failure] = std::from_chars(is_pair ? text.data() + equals + 1 : end, end, value);
    if (!is_pair || failure != std::errc() || parsed != end || !std::isfinite(value))
      throw Error::make(Fault::spec, "data.pad_values: \"{}\" is not an array and a number", text)
          .advise("write \"NAME=VALUE\", such as \"labels=-100\"");
    if (!values.emplace(text.substr(0, equals), value).second)
      throw Error::make(Fault::spec, "data.pad_values: {} has two values", text.substr(0, equals))
          .advise("leave one of them out");
  }
  return values;
}

void take_pad(const std::string& source, double value, PaddedArray& array) {
  const auto element = element_of(array.field.type, value);
  if (!element) {
    throw Error::make(Fault::spec, "data.pad_values: {} of {} holds {}, which does not have the value {}",
                      array.field.name, source, program::type_name(array.field.type), value)
        .advise("store the array in a wider type, or fill it with another value");
  }
  array.field.pad = value;
  array.pad = *element;
}

}  // namespace

std::byte* PaddedArray::write(const std::byte* values, int64_t rows, int64_t length, std::byte* out) const {
  const auto count = static_cast<size_t>(rows);
  switch (part) {
    case Part::values: {
      const size_t bytes = count * field.row_bytes();
      if (bytes > 0) std::memcpy(out, values, bytes);
      out += bytes;
      const size_t missing = field.is_ragged ? static_cast<size_t>(length) * field.row_bytes() - bytes : 0;
      for (size_t filled = 0; filled < missing; filled += pad.size()) std::memcpy(out + filled, pad.data(), pad.size());
      return out + missing;
    }
    case Part::lengths:
      std::memcpy(out, &rows, sizeof rows);
      return out + sizeof rows;
    case Part::mask:
      std::memset(out, 1, count);
      std::memset(out + count, 0, static_cast<size_t>(length) - count);
      return out + length;
  }
  return out;
}

void take_pads(const std::string& source, const spec::DataSection& section, const std::vector<PaddedArray*>& arrays) {
  const auto is_filled = [](const PaddedArray* array) { return array->field.is_ragged && !array->field.is_derived; };
  std::vector<std::string> ragged;
  for (PaddedArray* array : arrays) {
    if (!is_filled(array)) continue;
    ragged.push_back(array->field.name);
    take_pad(source, 0, *array);
  }
  for (const auto& [name, value] : pad_values(section)) {
    const auto found = std::ranges::find_if(arrays, [&, &wanted = name](const PaddedArray* array) {
      return array->field.name == wanted && is_filled(array);
    });
    if (found == arrays.end()) {
      throw Error::make(Fault::spec, "data.pad_values: {} is no ragged array that the model takes; these are: {}", name,
                        ragged.empty() ? "none" : fmt::format("{}", fmt::join(ragged, ", ")))
          .advise(section.format == spec::DataFormat::python
                      ? "a ragged array has its lengths in the Dataset: lengths = {\"tokens\": [...]}"
                      : "a ragged array has its offsets beside it in the file, NAME.offsets");
    }
    take_pad(source, value, **found);
  }
  if (ragged.empty()) refuse_padding(section);
}

int64_t padded_length(int64_t longest, const spec::DataSection& section) {
  const int64_t multiple = section.pad_multiple;
  return (std::max<int64_t>(longest, 1) + multiple - 1) / multiple * multiple;
}

std::optional<DerivedArray> derived_array(const std::string& name,
                                          const std::function<bool(const std::string&)>& is_ragged) {
  for (const std::string_view suffix : {kLengths, kMask}) {
    if (!name.ends_with(suffix)) continue;
    const std::string source = name.substr(0, name.size() - suffix.size());
    if (!is_ragged(source)) continue;
    PaddedArray array{.field = {.name = name, .type = program::ScalarType::i64, .dims = {}, .is_derived = true},
                      .part = PaddedArray::Part::lengths};
    if (suffix == kMask) {
      array.part = PaddedArray::Part::mask;
      array.field.type = program::ScalarType::boolean;
      array.field.dims = {0};
      array.field.is_ragged = true;
    }
    return DerivedArray{std::move(array), source};
  }
  return std::nullopt;
}

std::vector<std::string> derived_names(const std::string& name) {
  return {name + std::string(kLengths), name + std::string(kMask)};
}

void refuse_padding(const spec::DataSection& section) {
  const std::pair<bool, const char*> keys[] = {{!section.pad_values.empty(), "pad_values"},
                                               {section.pad_multiple != 1, "pad_multiple"},
                                               {section.bucket != 0, "bucket"}};
  for (const auto& [is_set, key] : keys) {
    if (!is_set) continue;
    throw Error::make(Fault::spec, "data.{} is for arrays of samples of any length, and the model takes none", key)
        .advise(section.format == spec::DataFormat::python
                    ? "remove it, or give the Dataset the lengths of its arrays: lengths = {\"tokens\": [...]}"
                    : "remove it, or store the array with its offsets: NAME and NAME.offsets");
  }
}

void require_same_arrays(const SampleShape& train, const SampleShape& test) {
  const auto without_length = [](const SampleShape& shape) {
    return shape.with_lengths(std::vector<int64_t>(shape.parts.size(), 0));
  };
  if (without_length(train) == without_length(test)) return;
  throw Error::make(Fault::mismatch, "data: training samples are {}; test samples are {}", describe_arrays(train),
                    describe_arrays(test))
      .advise("give both files the same arrays with the same types and shapes");
}

std::string describe_arrays(const SampleShape& shape) {
  std::vector<std::string> words;
  for (const SampleShape::Field& field : shape.parts)
    words.push_back(fmt::format("{} {} [{}{}]", field.name, program::type_name(field.type),
                                field.is_ragged ? "up to " : "", fmt::join(field.dims, ", ")));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace estrain::data
