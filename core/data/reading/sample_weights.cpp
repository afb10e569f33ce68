#include "core/data/reading/sample_weights.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string_view>

#include "core/base/error.h"
#include "core/data/files/npy_header.h"
#include "core/formats/h5/file.h"
#include "core/formats/h5/group.h"

namespace estrain::data {
namespace {

constexpr const char* kWeightsAdvice =
    "data.sample_weights names a .npy file, FILE.h5:DATASET, or a text file of numbers: a weight for each sample of "
    "the training data, in their order";

// "train.h5:weights": a file that exists under the very name has no dataset.
spec::CodePlace place_of_weights(const spec::DataSection& section) {
  spec::CodePlace place(section.sample_weights);
  if (place.is_whole() && !FileStamp::of(section.sample_weights)) return place;
  place.file = section.sample_weights;
  place.name.clear();
  return place;
}

template <typename T>
std::vector<double> numbers_of(const std::byte* at, size_t count) {
  std::vector<double> numbers;
  for (size_t i = 0; i < count; ++i, at += sizeof(T)) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    numbers.push_back(static_cast<double>(value));
  }
  return numbers;
}

struct NumberType {
  const char* name;
  size_t bytes;
  std::vector<double> (*read)(const std::byte*, size_t);
};

constexpr NumberType kNumberTypes[] = {{"<f8", 8, numbers_of<double>},
                                       {"<f4", 4, numbers_of<float>},
                                       {"<i8", 8, numbers_of<int64_t>},
                                       {"<i4", 4, numbers_of<int32_t>},
                                       {"|u1", 1, numbers_of<uint8_t>}};

std::vector<double> npy_weights(const DataFile& file) {
  const std::string advice =
      "save the weights as one dimension of float64: numpy.save(path, weights.astype('float64'))";
  const NpyHeader header = NpyHeader::read(file, advice);
  for (const NumberType& type : kNumberTypes) {
    if (header.type != type.name) continue;
    if (header.length > (file.content.size() - header.offset) / type.bytes)
      throw Error::make(Fault::corrupt, "{}: truncated: its header declares {} numbers", file.path, header.length);
    return type.read(file.content.data() + header.offset, header.length);
  }
  throw unfit_array(file, fmt::format("holds '{}'", header.type), advice);
}

void require_count(int64_t weights, int64_t samples, const std::string& path) {
  if (weights != samples)
    throw Error::make(Fault::mismatch, "{}: {} weights for {} training samples", path, weights, samples)
        .advise(kWeightsAdvice);
}

// `samples`: a damaged file may announce more weights than there is memory for.
std::vector<double> hdf5_weights(const DataFile& file, const std::string& name, int64_t samples) {
  const h5::Group root = h5::File::open(file.path).root();
  if (!root.contains(name))
    throw Error::make(Fault::mismatch, "{}: no dataset {}", file.path, name).advise(kWeightsAdvice);
  const h5::DatasetObject data = root.dataset(name);
  if (data.shape().size() != 1 || !data.numeric())
    throw Error::make(Fault::mismatch, "{}: {} is not a list of numbers", file.path, name).advise(kWeightsAdvice);
  data.require_readable();
  require_count(data.elements(), samples, file.path);
  std::vector<double> weights(static_cast<size_t>(data.elements()));
  data.read(h5::Type::f64, weights.data());
  return weights;
}

std::vector<double> text_weights(const DataFile& file) {
  std::string_view text(reinterpret_cast<const char*>(file.content.data()), file.content.size());
  constexpr std::string_view space = " \t\r\n";
  std::vector<double> weights;
  for (size_t at = text.find_first_not_of(space); at != text.npos; at = text.find_first_not_of(space)) {
    text.remove_prefix(at);
    const std::string_view word = text.substr(0, text.find_first_of(space));
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size())
      throw Error::make(Fault::corrupt, "{}: weight {} is not a number", file.path, weights.size())
          .advise(kWeightsAdvice);
    weights.push_back(value);
    text.remove_prefix(word.size());
  }
  return weights;
}

std::vector<double> stored_weights(const DataFile& file, const std::string& dataset, int64_t samples) {
  if (!dataset.empty()) return hdf5_weights(file, dataset, samples);
  return NpyHeader::is_in(file.content) ? npy_weights(file) : text_weights(file);
}

void require_weights(const std::vector<double>& weights, const std::string& path) {
  for (size_t i = 0; i < weights.size(); ++i)
    if (!std::isfinite(weights[i]) || weights[i] < 0)
      throw Error::make(Fault::corrupt, "{}: weight {} is {}: neither 0 nor a number above 0", path, i, weights[i])
          .advise("a weight says how often a sample is drawn, in proportion to the other weights");
}

void require_sum(const std::vector<double>& weights, const std::string& path) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sum > 0 && std::isfinite(sum)) return;
  throw Error::make(Fault::corrupt, "{}: the weights of the training samples sum to {}", path, sum)
      .advise("at least one must be above 0, and the sum must be a number");
}

}  // namespace

std::vector<FileName> weight_files(const spec::DataSection& section) {
  if (section.sample_weights.empty()) return {};
  return {{"sample weights", place_of_weights(section).file, FileKind::as_it_is}};
}

std::vector<double> read_sample_weights(const DataFile& file, const spec::DataSection& section, const Dataset& train) {
  const std::vector<double> stored = stored_weights(file, place_of_weights(section).name, train.stored());
  require_count(std::ssize(stored), train.stored(), file.path);
  require_weights(stored, file.path);
  std::vector<double> weights;
  for (int64_t i = 0; i < train.size(); ++i) weights.push_back(stored[static_cast<size_t>(train.stored_number(i))]);
  require_sum(weights, file.path);
  return weights;
}

}  // namespace estrain::data
