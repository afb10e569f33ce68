#include "core/state/checkpoint/models/model_file.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <type_traits>

#include "core/base/error.h"
#include "core/formats/h5/file.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/models/safetensors.h"
#include "core/state/checkpoint/state/array_match.h"
#include "core/state/checkpoint/state/state_layout.h"
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

// Tells whether elements of this type can be converted: by its name in array_match.h, or by safetensors' word ("BF16").
bool is_convertible(std::string_view type) {
  return with_element(type, [](auto) {});
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

bool of_model(Role role) { return role == Role::parameter || role == Role::buffer; }

// The model's names (of tensors and their aliases), each with its tensor.
struct WantedName {
  std::string name;
  size_t tensor;
};

std::vector<WantedName> wanted_names(const StateLayout& layout) {
  std::vector<WantedName> names;
  std::map<std::string, size_t> by_path;
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    if (!of_model(layout.tensors[i].role)) continue;
    names.push_back({layout.tensors[i].name, i});
    by_path.emplace(layout.tensors[i].path(), i);
  }
  for (const StateAlias& alias : layout.aliases) names.push_back({alias.name, by_path.at(alias.target_path())});
  return names;
}

// A foreign file: its arrays by state_dict name, and a function to read an array as the model's type.
struct Source {
  std::vector<ArrayForm> forms;
  std::function<void(const std::string& name, const StateTensor& as, std::byte* out)> read;
  // Whether a tied tensor may have only one of its names in the file.
  bool ties_once = false;
};

using Found = std::map<std::string, h5::Dataset>;

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
h5::Type type_to_read(const h5::Dataset& data) {
  return data.type() == h5::Type::other && data.is_float() ? h5::Type::f32 : data.type();
}

Source hdf5_source(const std::string& path) {
  const auto file = std::make_shared<h5::File>(h5::File::open(path));
  if (file->root().has("format")) throw Error(Fault::corrupt, "a checkpoint whose seal is damaged");
  const auto found = std::make_shared<Found>(find_arrays(file->root()));
  Source source;
  for (const auto& [name, dataset] : *found)
    source.forms.push_back({name, std::string(h5::type_name(type_to_read(dataset))), dataset.shape(), ""});
  source.read = [file, found](const std::string& name, const StateTensor& as, std::byte* out) {
    const h5::Dataset& data = found->at(name);
    const h5::Type stored = type_to_read(data);
    if (stored == h5_type(as.dtype)) return data.read(stored, out);
    std::vector<std::byte> elements(static_cast<size_t>(data.elements()) * h5::type_size(stored));
    data.read(stored, elements.data());
    convert_elements(h5::type_name(stored), elements.data(), as.elements(), as.dtype, out);
  };
  return source;
}

Source safetensors_source(const std::string& path) {
  const auto file = std::make_shared<SafetensorsFile>(SafetensorsFile::open(path));
  Source source = {.forms = {}, .read = {}, .ties_once = true};
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    const Safetensor& tensor = file->tensors()[i];
    source.forms.push_back({tensor.name, tensor.dtype, tensor.shape, ""});
    by_name.emplace(tensor.name, i);
  }
  source.read = [file, by_name](const std::string& name, const StateTensor& as, std::byte* out) {
    const size_t tensor = by_name.at(name);
    const Safetensor& stored = file->tensors()[tensor];
    if (stored.dtype == dtype_name(as.dtype)) return file->read(tensor, out);
    std::vector<std::byte> elements(stored.bytes);
    file->read(tensor, elements.data());
    convert_elements(stored.dtype, elements.data(), as.elements(), as.dtype, out);
  };
  return source;
}

// Returns the names to look for. A tied tensor has several: if one name suffices, the names present in the file; if the
// file has none of these, all names.
std::vector<WantedName> names_to_read(const StateLayout& layout, const Source& source) {
  std::vector<WantedName> names = wanted_names(layout);
  if (!source.ties_once) return names;
  std::set<std::string> present;
  for (const ArrayForm& form : source.forms) present.insert(form.path);
  std::set<size_t> there;
  for (const WantedName& name : names)
    if (present.contains(name.name)) there.insert(name.tensor);
  std::erase_if(names,
                [&](const WantedName& name) { return there.contains(name.tensor) && !present.contains(name.name); });
  return names;
}

std::vector<ArrayForm> wanted_forms(const StateLayout& layout, const std::vector<WantedName>& names) {
  std::vector<ArrayForm> forms;
  for (const WantedName& wanted : names) {
    const StateTensor& tensor = layout.tensors[wanted.tensor];
    forms.push_back({wanted.name, std::string(dtype_name(tensor.dtype)), tensor.shape, ""});
  }
  return forms;
}

// Returns the forms of a file after conversion. An array of another shape keeps its type, for the message.
std::vector<ArrayForm> converted_forms(std::vector<ArrayForm> found, const std::vector<ArrayForm>& wanted) {
  std::map<std::string, const ArrayForm*> by_path;
  for (const ArrayForm& want : wanted) by_path.emplace(want.path, &want);
  for (ArrayForm& form : found) {
    const auto want = by_path.find(form.path);
    if (want == by_path.end() || want->second->shape != form.shape || !is_convertible(form.dtype)) continue;
    form.dtype = want->second->dtype;
  }
  return found;
}

// Two names of one tensor may be two arrays in a foreign file: both arrays must have the same bits.
void require_same_bits(const WantedName& name, const StateTensor& tensor, const Source& source, const std::byte* have) {
  std::vector<std::byte> again(tensor.bytes());
  source.read(name.name, tensor, again.data());
  if (std::memcmp(again.data(), have, again.size()) != 0)
    throw Error::make(Fault::mismatch, "{} and {} are tied in the model, but differ in the file", tensor.name,
                      name.name);
}

void read_foreign(const Source& source, const StateLayout& layout, std::byte* state) {
  const std::vector<WantedName> names = names_to_read(layout, source);
  const std::vector<ArrayForm> wanted = wanted_forms(layout, names);
  require_same_arrays(wanted, converted_forms(source.forms, wanted));
  std::set<size_t> done;
  for (const WantedName& name : names) {
    const StateTensor& tensor = layout.tensors[name.tensor];
    if (done.insert(name.tensor).second)
      source.read(name.name, tensor, state + tensor.offset);
    else
      require_same_bits(name, tensor, source, state + tensor.offset);
  }
}

}  // namespace

void read_model(const std::string& path, const StateLayout& layout, std::byte* state) {
  if (is_checkpoint(path)) return CheckpointFile::open(path).read_state(layout, state, StatePart::model);
  if (is_safetensors(path)) {
    const Source source = safetensors_source(path);  // names the file itself
    return with_context(path, [&] { read_foreign(source, layout, state); });
  }
  with_context(path, [&] { read_foreign(hdf5_source(path), layout, state); });
}

}  // namespace estrain::checkpoint
