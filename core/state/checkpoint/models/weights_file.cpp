#include "core/state/checkpoint/models/weights_file.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/files/input_file.h"
#include "core/base/json/json.h"
#include "core/base/json/json_text.h"
#include "core/formats/h5/file.h"
#include "core/state/checkpoint/bytes/byte_io.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/models/safetensors.h"
#include "core/state/checkpoint/state/structure.h"

namespace estrain::checkpoint {
namespace {

// Converts the elements of a state_dict to the types of a model, as torch's Tensor.copy_ does.
struct Bfloat16 {
  uint16_t bits;
  float value() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

struct Half {
  uint16_t bits;
  float value() const {
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 0x3ffu;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -small : small;
  }
};

struct Boolean {
  uint8_t byte;
  uint8_t value() const { return byte != 0; }
};

template <typename Number>
struct Plain {
  Number number;
  Number value() const { return number; }
};

// Calls visit() with an element of the type. Returns false if the type cannot be converted.
template <typename Visit>
bool with_element(std::string_view type, Visit visit) {
  if (type == "float32") return visit(Plain<float>{}), true;
  if (type == "float64") return visit(Plain<double>{}), true;
  if (type == "BF16") return visit(Bfloat16{}), true;
  if (type == "F16") return visit(Half{}), true;
  if (type == "BOOL") return visit(Boolean{}), true;
  if (type == "int8" || type == "I8") return visit(Plain<int8_t>{}), true;
  if (type == "int16" || type == "I16") return visit(Plain<int16_t>{}), true;
  if (type == "int32" || type == "I32") return visit(Plain<int32_t>{}), true;
  if (type == "int64") return visit(Plain<int64_t>{}), true;
  if (type == "uint8") return visit(Plain<uint8_t>{}), true;
  if (type == "uint16" || type == "U16") return visit(Plain<uint16_t>{}), true;
  if (type == "uint32" || type == "U32") return visit(Plain<uint32_t>{}), true;
  if (type == "uint64" || type == "U64") return visit(Plain<uint64_t>{}), true;
  return false;
}

// A float beyond all integers becomes the least, as on x86.
template <typename To, typename From>
To converted(From value) {
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    const bool fits = value >= -0x1p63 && value < 0x1p63;
    return static_cast<To>(fits ? static_cast<int64_t>(value) : INT64_MIN);
  } else {
    return static_cast<To>(value);
  }
}

template <typename To, typename Element>
void convert(const std::byte* in, uint64_t count, std::byte* out) {
  for (uint64_t i = 0; i < count; ++i) {
    Element element;
    std::memcpy(&element, in + i * sizeof(Element), sizeof(Element));
    const To value = converted<To>(element.value());
    std::memcpy(out + i * sizeof(To), &value, sizeof(To));
  }
}

// `out` has room for `count` elements. The type is convertible.
void convert_elements(std::string_view type, const std::byte* in, uint64_t count, DType as, std::byte* out) {
  const bool done = with_element(type, [&]<typename Element>(Element) {
    switch (as) {
      case DType::f32:
        return convert<float, Element>(in, count, out);
      case DType::f64:
        return convert<double, Element>(in, count, out);
      case DType::i32:
        return convert<int32_t, Element>(in, count, out);
      case DType::i64:
        return convert<int64_t, Element>(in, count, out);
      case DType::u8:
        return convert<uint8_t, Element>(in, count, out);
    }
  });
  if (!done) throw Error::make(Fault::bug, "elements of type {} are not converted", type);
}

constexpr uint64_t kConvertedAtOnce = 1 << 20;  // bytes of a file: a load needs no second copy of a large array

// An array in a file, as `rows` rows of `row_elements` elements.
struct StoredRows {
  std::string_view type;
  uint64_t element_bytes = 0, rows = 0, row_elements = 1;
};

// Converts an array, some rows at once. `read(first, rows, to)` reads rows from `first` on.
template <typename Read>
void convert_rows(const StoredRows& stored, DType as, std::byte* out, const Read& read) {
  const uint64_t row_bytes = stored.row_elements * stored.element_bytes;
  if (row_bytes == 0 || stored.rows == 0) return;
  const uint64_t at_once = std::min(std::max<uint64_t>(1, kConvertedAtOnce / row_bytes), stored.rows);
  std::vector<std::byte> piece(static_cast<size_t>(at_once * row_bytes));
  for (uint64_t first = 0; first < stored.rows; first += at_once) {
    const uint64_t rows = std::min(at_once, stored.rows - first);
    read(first, rows, piece.data());
    convert_elements(stored.type, piece.data(), rows * stored.row_elements, as,
                     out + first * stored.row_elements * element_size(as));
  }
}

using Found = std::map<std::string, h5::DatasetObject>;

void collect(const h5::Group& group, Found& found) {
  for (const h5::Child& child : group.children())
    if (child.kind == h5::Child::Kind::dataset) found.emplace(child.name, group.dataset(child.name));
}

// Finds the arrays anywhere in the file.
Found find_arrays(const h5::Group& root) {
  Found found;
  if (!root.contains("model")) collect(root, found);
  for (const char* folder : {"model", "buffers"})
    if (root.contains(folder)) collect(root.group(folder), found);
  return found;
}

// HDF5 itself makes floats of half precision.
h5::Type type_to_read(const h5::DatasetObject& data) {
  return data.type() == h5::Type::other && data.is_float() ? h5::Type::f32 : data.type();
}

WeightsFile hdf5_weights(const std::string& path) {
  const auto file = std::make_shared<h5::File>(h5::File::open(path));
  if (file->root().has("format")) throw Error(Fault::corrupt, "a checkpoint whose seal is damaged");
  const auto found = std::make_shared<Found>(find_arrays(file->root()));
  WeightsFile weights;
  for (const auto& [name, dataset] : *found)
    weights.forms.push_back({name, std::string(h5::type_name(type_to_read(dataset))), dataset.shape(), ""});
  weights.read = [file, found](const std::string& name, const StateTensor& as, std::byte* out) {
    const h5::DatasetObject& data = found->at(name);
    const h5::Type stored = type_to_read(data);
    if (stored == h5_type(as.dtype)) return data.read(stored, out);
    StoredRows all = {.type = h5::type_name(stored), .element_bytes = h5::type_size(stored), .rows = 1};
    // An array in chunks is read whole: each piece would decompress all chunks under the piece.
    if (data.offset() && !data.shape().empty()) all.rows = static_cast<uint64_t>(data.shape()[0]);
    if (all.rows > 0) all.row_elements = as.elements() / all.rows;
    convert_rows(all, as.dtype, out, [&](uint64_t first, uint64_t rows, std::byte* to) {
      if (all.rows == 1) return data.read(stored, to);
      data.read_rows(stored, static_cast<int64_t>(first), static_cast<int64_t>(rows), to);
    });
  };
  return weights;
}

WeightsFile safetensors_weights(const std::string& path) {
  const auto file = std::make_shared<SafetensorsFile>(SafetensorsFile::open(path));
  WeightsFile weights = {.forms = {}, .read = {}, .ties_once = true};
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    const Safetensor& tensor = file->tensors()[i];
    weights.forms.push_back({tensor.name, tensor.dtype, tensor.shape, ""});
    by_name.emplace(tensor.name, i);
  }
  weights.read = [file, by_name](const std::string& name, const StateTensor& as, std::byte* out) {
    const size_t tensor = by_name.at(name);
    const Safetensor& stored = file->tensors()[tensor];
    if (stored.dtype == dtype_name(as.dtype)) return file->read(tensor, out);
    if (as.elements() == 0) return;
    const uint64_t bytes = stored.bytes / as.elements();
    convert_rows({.type = stored.dtype, .element_bytes = bytes, .rows = as.elements()}, as.dtype, out,
                 [&](uint64_t first, uint64_t elements, std::byte* to) {
                   file->read_part(tensor, first * bytes, elements * bytes, to);
                 });
  };
  return weights;
}

constexpr std::string_view kIndex = ".index.json";
constexpr size_t kMostParts = 10'000;

// Returns {name of an array: name of the array's part}.
std::map<std::string, std::string> parts_in(const std::string& path) {
  const Json index = parse_json(read_whole(open_input(path).get(), path), "the index");
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    throw Error(Fault::corrupt, "an index without a weight_map");
  std::map<std::string, std::string> parts;
  for (auto entry = map->begin(); entry != map->end(); ++entry) {
    const std::string part = entry.value().is_string() ? entry.value().get<std::string>() : "";
    if (part.empty() || part.find('/') != part.npos || part.front() == '.')
      throw Error::make(Fault::corrupt, "{} lies in no file beside the index", entry.key());
    parts.emplace(entry.key(), part);
  }
  return parts;
}

WeightsFile indexed_weights(const std::string& path) {
  const std::map<std::string, std::string> part_of = parts_in(path);
  auto parts = std::make_shared<std::map<std::string, WeightsFile>>();
  for (const auto& [name, part] : part_of) {
    if (parts->contains(part)) continue;
    if (parts->size() == kMostParts) throw Error::make(Fault::corrupt, "more than {} parts", kMostParts);
    const std::string at = std::filesystem::path(path).parent_path() / part;
    if (is_of_torch_save(at))
      throw Error::make(Fault::mismatch, "its part {} is a file of torch.save", part)
          .advise("take the safetensors files of the same weights, by their model.safetensors.index.json");
    parts->emplace(part, safetensors_weights(at));
  }
  WeightsFile weights = {.forms = {}, .read = {}, .ties_once = true};
  std::map<std::string, std::string> missing = part_of;
  for (const auto& [part, file] : *parts) {
    for (const ArrayForm& form : file.forms) {
      const auto place = part_of.find(form.path);
      if (place == part_of.end() || place->second != part)
        throw Error::make(Fault::corrupt, "{} has {}, which the index does not say", part, form.path);
      weights.forms.push_back(form);
    }
  }
  for (const ArrayForm& form : weights.forms) missing.erase(form.path);
  if (!missing.empty())
    throw Error::make(Fault::corrupt, "the index names {}, which {} does not have", missing.begin()->first,
                      missing.begin()->second);
  weights.read = [parts, part_of](const std::string& name, const StateTensor& as, std::byte* out) {
    parts->at(part_of.at(name)).read(name, as, out);
  };
  return weights;
}

WeightsFile checkpoint_weights(const std::string& path) {
  const auto file = std::make_shared<CheckpointFile>(CheckpointFile::open(path));
  const StateLayout& layout = file->layout();
  auto tensor_of = std::make_shared<std::map<std::string, size_t>>();
  std::map<std::string, size_t> by_path;
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const StateTensor& tensor = layout.tensors[i];
    if (tensor.role != Role::parameter && tensor.role != Role::buffer) continue;
    tensor_of->emplace(tensor.name, i);
    by_path.emplace(tensor.path(), i);
  }
  for (const StateAlias& alias : layout.aliases) tensor_of->emplace(alias.name, by_path.at(alias.target_path()));
  WeightsFile weights;
  for (const auto& [name, tensor] : *tensor_of) {
    const StateTensor& stored = layout.tensors[tensor];
    weights.forms.push_back({name, std::string(dtype_name(stored.dtype)), stored.shape, ""});
  }
  weights.read = [file, tensor_of](const std::string& name, const StateTensor& as, std::byte* out) {
    const size_t tensor = tensor_of->at(name);
    const StateTensor& stored = file->layout().tensors[tensor];
    if (stored.dtype == as.dtype) return file->read(tensor, out);
    std::vector<std::byte> elements(stored.bytes());
    file->read(tensor, elements.data());
    convert_elements(dtype_name(stored.dtype), elements.data(), as.elements(), as.dtype, out);
  };
  return weights;
}

}  // namespace

bool is_convertible(std::string_view type) {
  return with_element(type, [](auto) {});
}

// A ZIP file, or a pickle of protocol 2 that begins with the number 0x1950a86a20f9469cfc6c.
bool is_of_torch_save(const std::string& path) {
  if (std::filesystem::is_directory(path)) return false;
  std::string begin(4, '\0');
  const UniqueFd fd = open_input(path);
  if (length_of(fd.get()) < begin.size()) return false;
  read_bytes(fd.get(), 0, reinterpret_cast<std::byte*>(begin.data()), begin.size());
  return begin == "PK\x03\x04" || begin == "\x80\x02\x8a\x0a";
}

WeightsFile open_weights(const std::string& path) {
  if (path.ends_with(kIndex)) return with_context(path, [&] { return indexed_weights(path); });
  if (is_safetensors(path)) return safetensors_weights(path);  // names the file itself
  if (is_checkpoint(path)) return checkpoint_weights(path);
  if (is_of_torch_save(path))
    throw Error::make(Fault::mismatch, "{}: a file of torch.save, which only Python can read", path)
        .advise("convert it: estrain weights FILE weights.safetensors");
  return with_context(path, [&] { return hdf5_weights(path); });
}

}  // namespace estrain::checkpoint
