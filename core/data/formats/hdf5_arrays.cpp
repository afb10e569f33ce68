#include "core/data/formats/hdf5_arrays.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/data/files/file_bytes.h"
#include "core/data/sampling/padded_array.h"
#include "core/formats/h5/elsewhere.h"
#include "core/formats/h5/file.h"

namespace estrain::data {
namespace {

uint64_t bytes_of(const h5::DatasetObject& data, h5::Type as) {
  return static_cast<uint64_t>(data.elements()) * h5::type_size(as);
}

uint64_t size_with_sources(const std::string& path) {
  uint64_t bytes = std::filesystem::file_size(path);
  for (const std::string& file : h5::other_files(path)) bytes += std::filesystem::file_size(file);
  return bytes;
}

// Unwritten chunks take no space, so a small file can declare more data than fit into memory. But deflate, the
// strongest filter in use, shrinks data at most to 1/1032.
void require_stored(const h5::DatasetObject& data, const std::string& path) {
  constexpr uint64_t most_per_byte = 1032, small = 1 << 20;
  const uint64_t announced = bytes_of(data, data.type());
  if (announced <= small || announced / most_per_byte <= std::filesystem::file_size(path)) return;
  const uint64_t stored = size_with_sources(path);
  if (announced / most_per_byte <= stored) return;
  throw Error::make(Fault::corrupt, "{}: declares {} bytes of data, but the file has {}", data.where(), announced,
                    stored)
      .advise("it was never filled, or is damaged");
}

void require_inside(const h5::DatasetObject& data, uint64_t offset, uint64_t size) {
  const uint64_t bytes = bytes_of(data, data.type());
  if (offset <= size && bytes <= size - offset) return;
  throw Error::make(Fault::corrupt, "{}: truncated: it ends at byte {} of its file, the file at {}", data.where(),
                    offset + bytes, size)
      .advise("download the file again");
}

Elements read_elements(const h5::DatasetObject& data, h5::Type as) {
  constexpr std::align_val_t alignment{64};
  auto* memory = static_cast<std::byte*>(::operator new(bytes_of(data, as), alignment));
  Elements elements = {{memory, [](const std::byte* p) { ::operator delete(const_cast<std::byte*>(p), alignment); }},
                       memory};
  data.read(as, memory);
  return elements;
}

using Field = SampleShape::Field;

constexpr const char* kArrayAdvice =
    "each input of the program needs a dataset of its name at the file's root, the samples along its first dimension";

struct ArrayType {
  program::ScalarType type;
  h5::Type read_as;
};

std::optional<ArrayType> array_type(h5::Type stored) {
  switch (stored) {
    case h5::Type::f32:
      return ArrayType{program::ScalarType::f32, stored};
    case h5::Type::f64:
      return ArrayType{program::ScalarType::f64, stored};
    case h5::Type::i8:
      return ArrayType{program::ScalarType::i8, stored};
    case h5::Type::i16:
      return ArrayType{program::ScalarType::i16, stored};
    case h5::Type::i32:
      return ArrayType{program::ScalarType::i32, stored};
    case h5::Type::i64:
      return ArrayType{program::ScalarType::i64, stored};
    case h5::Type::u8:
      return ArrayType{program::ScalarType::u8, stored};
    case h5::Type::u16:
      return ArrayType{program::ScalarType::i32, h5::Type::i32};
    case h5::Type::u32:
    case h5::Type::u64:
      return ArrayType{program::ScalarType::i64, h5::Type::i64};
    case h5::Type::boolean:
      return ArrayType{program::ScalarType::boolean, stored};
    case h5::Type::other:
      break;
  }
  return std::nullopt;
}

struct Array : PaddedArray {
  Elements elements;  // of values
  std::shared_ptr<const std::byte> offsets_owner{};
  std::span<const int64_t> offsets{};  // of a ragged array, and of the arrays derived from a ragged array

  int64_t begin(int64_t index) const { return offsets.empty() ? index : offsets[static_cast<size_t>(index)]; }
  int64_t length(int64_t index) const { return offsets.empty() ? 1 : begin(index + 1) - begin(index); }
  // Writes a sample's part for a mini-batch of the length `length`. Returns the end.
  std::byte* write_sample(int64_t index, int64_t length, std::byte* out) const {
    const std::byte* values =
        elements.first == nullptr ? nullptr : elements.first + static_cast<size_t>(begin(index)) * field.row_bytes();
    return write(values, this->length(index), length, out);
  }
};

class ArrayDataset : public Dataset {
 public:
  ArrayDataset(std::vector<Array> arrays, int64_t samples, const spec::DataSection& section)
      : arrays_(std::move(arrays)), samples_(samples), section_(section) {
    std::vector<Field> fields;
    for (Array& array : arrays_) {
      if (array.field.is_ragged) array.field.dims[0] = longest(array, samples, [](int64_t i) { return i; });
      fields.push_back(array.field);
    }
    shape_ = SampleShape::fields(std::move(fields));
  }

  int64_t size() const override { return samples_; }
  SampleShape shape() const override { return shape_; }
  int64_t classes() const override { return 1; }
  int64_t length(int64_t index) const override {
    int64_t sum = 0;
    for (const Array& array : arrays_)
      if (array.field.is_ragged && !array.field.is_derived) sum += array.length(index);
    return sum;
  }
  std::vector<int64_t> lengths_of(std::span<const int64_t> indices) const override {
    std::vector<int64_t> lengths;
    const auto index_of = [indices](int64_t i) { return indices[static_cast<size_t>(i)]; };
    for (const Array& array : arrays_)
      lengths.push_back(array.field.is_ragged ? longest(array, std::ssize(indices), index_of) : 0);
    return lengths;
  }
  void read(int64_t, const SampleDraw&, std::byte*, int64_t*) const override {
    throw Error(Fault::bug, "a data set of several arrays was asked for one");
  }
  void read_fields(int64_t index, const SampleDraw&, std::span<std::byte* const> out) const override {
    for (size_t i = 0; i < arrays_.size(); ++i)
      arrays_[i].write_sample(index, shape_.parts[i].is_ragged ? shape_.parts[i].dims[0] : 0, out[i]);
  }
  void read_run(const SampleRun& run) const override {
    std::vector<std::byte*> out = run.out;
    for (const int64_t index : run.indices) {
      if (run.is_abandoned()) return;
      for (size_t i = 0; i < arrays_.size(); ++i)
        out[i] = arrays_[i].write_sample(index, run.lengths.empty() ? 0 : run.lengths[i], out[i]);
    }
  }

 private:
  // The length of a ragged array in a mini-batch of `samples` samples: index_of(0), index_of(1), …
  template <typename IndexOf>
  int64_t longest(const Array& array, int64_t samples, IndexOf index_of) const {
    int64_t most = 0;
    for (int64_t i = 0; i < samples; ++i) most = std::max(most, array.length(index_of(i)));
    return padded_length(most, section_);
  }

  std::vector<Array> arrays_;
  const int64_t samples_;
  const spec::DataSection section_;
  SampleShape shape_;
};

Error unfit(const std::string& path, const std::string& what) {
  return Error::make(Fault::mismatch, "{}: {}", path, what).advise(kArrayAdvice);
}

constexpr const char *kImages = "images", *kLabels = "labels";

bool is_integer(program::ScalarType type) { return type <= program::ScalarType::i64; }

bool are_pictures(const h5::DatasetObject& data) {
  const bool has_type = data.type() == h5::Type::u8 || data.type() == h5::Type::f32;
  return has_type && (data.shape().size() == 3 || data.shape().size() == 4);
}

bool are_labels(const h5::DatasetObject& data) {
  const std::optional<ArrayType> type = array_type(data.type());
  return type && is_integer(type->type) && data.shape().size() == 1;
}

constexpr std::string_view kOffsets = ".offsets";
constexpr const char* kOffsetsAdvice =
    "NAME.offsets[i] and NAME.offsets[i + 1] are the rows of NAME at which sample i begins and ends: [0, end of the "
    "first sample, ..., rows of NAME]";

std::string offsets_of(const std::string& name) { return name + std::string(kOffsets); }

bool is_ragged(const h5::Group& root, const std::string& name) {
  return root.contains(name) && root.contains(offsets_of(name));
}

Error wrong_offsets(const std::string& path, const std::string& what) {
  return Error::make(Fault::corrupt, "{}: {}", path, what).advise(kOffsetsAdvice);
}

void require_offsets(const std::string& path, const std::string& name, std::span<const int64_t> offsets, int64_t rows) {
  if (offsets.front() != 0) throw wrong_offsets(path, fmt::format("{} begins at {}, not at 0", name, offsets.front()));
  const auto falls = std::ranges::adjacent_find(offsets, std::ranges::greater());
  if (falls != offsets.end())
    throw wrong_offsets(
        path, fmt::format("{} falls from {} to {}, at sample {}", name, falls[0], falls[1], falls - offsets.begin()));
  if (offsets.back() != rows)
    throw wrong_offsets(path, fmt::format("{} ends at {}, but the array has {} rows", name, offsets.back(), rows));
}

// Reads the offsets of the array `name` into `array`.
void read_offsets(const DataFile& file, const h5::Group& root, const std::string& name, Array& array) {
  const h5::DatasetObject data = root.dataset(offsets_of(name));
  const std::optional<ArrayType> type = array_type(data.type());
  if (!type || !is_integer(type->type) || data.shape().size() != 1 || data.elements() == 0) {
    throw Error::make(Fault::mismatch, "{}: {} is {} {}, not a list of whole numbers, one more than there are samples",
                      file.path, offsets_of(name), h5::type_name(data.type()), h5::shape_text(data.shape()))
        .advise(kOffsetsAdvice);
  }
  const Elements elements = elements_of(data, h5::Type::i64, file);
  array.offsets_owner = elements.owner;
  array.offsets = {reinterpret_cast<const int64_t*>(elements.first), static_cast<size_t>(data.elements())};
  const std::vector<int64_t> shape = root.dataset(name).shape();
  if (shape.empty()) throw unfit(file.path, name + " is a single number instead of one per sample");
  require_offsets(file.path, offsets_of(name), array.offsets, shape.front());
}

std::optional<Array> read_derived(const DataFile& file, const h5::Group& root, const std::string& name) {
  std::optional<DerivedArray> derived =
      derived_array(name, [&root](const std::string& source) { return is_ragged(root, source); });
  if (!derived) return std::nullopt;
  Array array{std::move(derived->array), {}, {}, {}};
  read_offsets(file, root, derived->source, array);
  return array;
}

Array read_array(const DataFile& file, const h5::Group& root, const std::string& name) {
  if (!root.contains(name)) {
    if (std::optional<Array> derived = read_derived(file, root, name)) return std::move(*derived);
    throw unfit(file.path, fmt::format("lacks dataset {}, an input of the program; it has: {}", name, names_in(root)));
  }
  const h5::DatasetObject data = root.dataset(name);
  const std::optional<ArrayType> type = array_type(data.type());
  if (!type) throw unfit(file.path, name + " holds neither integers, booleans, float32 nor float64");
  if (data.shape().empty()) throw unfit(file.path, name + " is a single number instead of one per sample");
  Field field{name, type->type, {data.shape().begin() + 1, data.shape().end()}};
  if (data.elements() == 0) throw unfit(file.path, fmt::format("{} is empty: {}", name, h5::shape_text(data.shape())));
  Array array;
  if (is_ragged(root, name)) {
    read_offsets(file, root, name, array);
    field.is_ragged = true;
    field.dims.insert(field.dims.begin(), 0);
  }
  array.field = std::move(field);
  array.elements = elements_of(data, type->read_as, file);
  return array;
}

// Returns whether the array holds the offsets of a ragged array.
bool are_offsets(const h5::Group& root, const std::string& name) {
  return name.ends_with(kOffsets) && root.contains(name.substr(0, name.size() - kOffsets.size()));
}

// As the file declares; of a ragged array by the number of its offsets.
int64_t stored_samples(const h5::Group& root, const std::string& name) {
  if (!is_ragged(root, name)) return root.dataset(name).shape()[0];
  const std::vector<int64_t> shape = root.dataset(offsets_of(name)).shape();
  return shape.empty() ? 0 : shape[0] - 1;
}

int64_t samples_of(const Array& array, const h5::Group& root) {
  return array.offsets.empty() ? root.dataset(array.field.name).shape()[0] : std::ssize(array.offsets) - 1;
}

}  // namespace

std::string names_in(const h5::Group& root) {
  constexpr size_t kMostNames = 20;
  std::vector<std::string> names;
  for (const h5::Child& child : root.children()) {
    if (child.kind == h5::Child::Kind::dataset) names.push_back(child.name);
  }
  if (names.empty()) return "none at its root";
  const size_t more = names.size() - std::min(names.size(), kMostNames);
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

Elements elements_of(const h5::DatasetObject& data, h5::Type as, const DataFile& file) {
  require_stored(data, file.path);
  const std::optional<uint64_t> offset = data.offset();
  if (!offset || as != data.type() || *offset % h5::type_size(as) != 0) return read_elements(data, as);
  const std::string path = data.file();
  const FileBytes content = path == file.path ? file.content : FileBytes::map(path);
  require_inside(data, *offset, content.size());
  return {content.owner, content.data() + *offset};
}

void require_readable(const h5::DatasetObject& data, const std::string& path) {
  require_stored(data, path);
  data.require_readable();
  if (const std::optional<uint64_t> offset = data.offset())
    require_inside(data, *offset, std::filesystem::file_size(data.file()));
}

bool is_labelled_pictures(const std::string& path, const std::vector<program::UserInput>& inputs) {
  const h5::File opened = h5::File::open(path);
  const h5::Group root = opened.root();
  if (!root.contains(kImages) || !root.contains(kLabels) || inputs.size() > 2) return false;
  if (is_ragged(root, kImages) || is_ragged(root, kLabels)) return false;
  bool is_by_name = false;
  for (const program::UserInput& input : inputs) {
    const bool is_picture = input.name == kImages, is_label = input.name == kLabels;
    if (!is_picture && !is_label && root.contains(input.name)) return false;
    if (is_picture && input.type != program::ScalarType::f32) return false;
    if (is_label && !is_integer(input.type)) return false;
    is_by_name |= is_picture || is_label;
  }
  return !is_by_name || (are_pictures(root.dataset(kImages)) && are_labels(root.dataset(kLabels)));
}

void refuse_transforms(const spec::DataSection& section, const std::vector<std::string>& names) {
  const std::pair<bool, const char*> keys[] = {{section.layout != spec::ImageOrder::automatic, "layout"},
                                               {section.channels.has_value(), "channels"},
                                               {!section.resize.empty(), "resize"},
                                               {section.pad != 0, "pad"},
                                               {!section.crop.empty(), "crop"},
                                               {section.flip, "flip"},
                                               {!section.rand_augment.empty(), "rand_augment"},
                                               {!section.jitter.empty(), "jitter"},
                                               {section.erase != 0, "erase"},
                                               {section.mixup != 0, "mixup"},
                                               {section.cutmix != 0, "cutmix"},
                                               {!section.mean.empty(), "mean"},
                                               {!section.std.empty(), "std"}};
  for (const auto& [is_set, key] : keys) {
    if (!is_set) continue;
    throw Error::make(Fault::spec, "data.{} is for pictures, but the model takes arrays by name, unchanged: {}", key,
                      fmt::join(names, ", "))
        .advise(
            "remove it, and let the model do that; pictures are a file with images and labels for a model that takes "
            "no other array of it");
  }
}

std::unique_ptr<Dataset> read_hdf5_arrays(const DataFile& file, const std::vector<std::string>& names,
                                          const spec::DataSection& section) {
  const h5::File opened = h5::File::open(file.path);
  const h5::Group root = opened.root();
  std::vector<Array> arrays;
  int64_t samples = 0;
  for (const std::string& name : names) {
    arrays.push_back(read_array(file, root, name));
    const int64_t count = samples_of(arrays.back(), root);
    if (arrays.size() > 1 && count != samples)
      throw Error::make(Fault::corrupt, "{}: {} has {} samples, {} has {}", file.path, names.front(), samples, name,
                        count)
          .advise(kArrayAdvice);
    samples = count;
  }
  std::vector<PaddedArray*> padded;
  for (Array& array : arrays) padded.push_back(&array);
  take_pads(file.path, section, padded);
  return std::make_unique<ArrayDataset>(std::move(arrays), samples, section);
}

std::vector<std::string> array_names(const std::string& path) {
  std::vector<std::pair<std::string, int64_t>> found;
  const h5::Group root = h5::File::open(path).root();
  int64_t most = 0;
  for (const h5::Child& child : root.children()) {
    if (child.kind != h5::Child::Kind::dataset || are_offsets(root, child.name)) continue;
    const h5::DatasetObject data = root.dataset(child.name);
    if (!array_type(data.type()) || data.shape().empty()) continue;
    found.emplace_back(child.name, stored_samples(root, child.name));
    most = std::max(most, found.back().second);
  }
  std::vector<std::string> names, derived;
  for (const auto& [name, samples] : found) {
    if (samples != most) continue;
    names.push_back(name);
    if (!is_ragged(root, name)) continue;
    for (const std::string& made : derived_names(name))
      if (!root.contains(made)) derived.push_back(made);
  }
  names.insert(names.end(), derived.begin(), derived.end());
  return names;
}

}  // namespace estrain::data
