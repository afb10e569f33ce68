#include "core/data/formats/synthetic.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>

#include "core/base/error.h"
#include "core/data/formats/labelled_images.h"

namespace estrain::data {
namespace {

constexpr int64_t kBlock = 16;  // bytes of one Philox call

int64_t blocks_of(int64_t elements) { return (elements + kBlock - 1) / kBlock; }

// The words' bytes in little-endian order.
std::array<uint8_t, kBlock> bytes_of(const PhiloxWords& words) {
  static_assert(std::endian::native == std::endian::little);
  return std::bit_cast<std::array<uint8_t, kBlock>>(words);
}

PhiloxCounter counter(int64_t index, int64_t place, PhiloxStream stream) {
  return {static_cast<uint32_t>(index), static_cast<uint32_t>(static_cast<uint64_t>(index) >> 32),
          static_cast<uint32_t>(place), static_cast<uint32_t>(stream)};
}

// Samples first, first + 1, … of an endless sequence.
struct Supply {
  std::shared_ptr<const SyntheticBytes> bytes;
  int64_t first, count;
};

class SyntheticImages : public ImageSource {
 public:
  SyntheticImages(Supply supply, const ImageLayout& layout) : supply_(std::move(supply)), layout_(layout) {}
  int64_t size() const override { return supply_.count; }
  ImageLayout layout() const override { return layout_; }
  int64_t classes() const override { return supply_.bytes->classes(); }
  int64_t label(int64_t index) const override { return supply_.bytes->label(supply_.first + index); }
  const std::byte* pixels(int64_t index, std::vector<std::byte>& scratch) const override {
    scratch.resize(layout_.bytes());
    supply_.bytes->write(supply_.first + index, reinterpret_cast<uint8_t*>(scratch.data()));
    return scratch.data();
  }

 private:
  Supply supply_;
  ImageLayout layout_;
};

class SyntheticVectors : public Dataset {
 public:
  explicit SyntheticVectors(Supply supply) : supply_(std::move(supply)) {}
  int64_t size() const override { return supply_.count; }
  SampleShape shape() const override { return SampleShape::vector(supply_.bytes->elements()); }
  int64_t classes() const override { return supply_.bytes->classes(); }
  std::vector<int64_t> labels() const override {
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < size(); ++i) labels.push_back(supply_.bytes->label(supply_.first + i));
    return labels;
  }
  void read(int64_t index, const SampleDraw&, std::byte* out_input, int64_t* out_target) const override {
    thread_local std::vector<uint8_t> values;
    values.resize(static_cast<size_t>(supply_.bytes->elements()));
    supply_.bytes->write(supply_.first + index, values.data());
    float* out = reinterpret_cast<float*>(out_input);
    for (uint8_t value : values) *out++ = static_cast<float>(int{value} - 128) / 128.0f;
    *out_target = supply_.bytes->label(supply_.first + index);
  }

 private:
  Supply supply_;
};

void refuse_image_keys(const spec::DataSection& data) {
  if (data.channels || !data.resize.empty() || data.pad != 0 || !data.crop.empty() || data.flip ||
      !data.rand_augment.empty() || !data.jitter.empty() || data.erase != 0 || data.mixup != 0 || data.cutmix != 0 ||
      !data.mean.empty() || !data.std.empty()) {
    throw Error(Fault::spec,
                "data.channels, resize, pad, crop, flip, rand_augment, jitter, erase, mixup, cutmix, mean and std are "
                "for images; data.shape has one dimension")
        .advise("set data.shape = [channels, height, width] or remove these keys");
  }
}

std::unique_ptr<Dataset> make(const spec::DataSection& section, const Supply& supply) {
  const auto& shape = section.shape;
  if (shape.size() == 1) return std::make_unique<SyntheticVectors>(supply);
  const ImageLayout layout{PixelType::u8, shape[0], shape[1], shape[2]};
  return std::make_unique<ImageDataset>(std::make_unique<SyntheticImages>(supply, layout), section);
}

// The number of elements of a sample. Throws Fault::infeasible if the prototypes would take more than 4 GiB.
int64_t require_room(const spec::DataSection& section, std::optional<int64_t> classes) {
  constexpr int64_t most = int64_t{4} << 30;
  const int64_t copies = classes.value_or(synthetic_classes);
  int64_t elements = 1;
  for (const int64_t length : section.shape)
    if (__builtin_mul_overflow(elements, length, &elements)) elements = most;
  if (elements <= most / copies) return elements;
  throw Error::make(Fault::infeasible,
                    "synthetic samples of [{}] in {} classes need a pattern of that size for each: over 4 GiB",
                    fmt::join(section.shape, ", "), copies)
      .advise("use a smaller data.shape or fewer model.classes");
}

// Throws as require_room(), and Fault::spec for a shape other than [channels, height, width] and [length], or for
// transforms that do not fit.
DataPair open_synthetic(const DataRequest& request) {
  const spec::DataSection& section = request.section;
  const auto& shape = section.shape;
  if ((shape.size() != 1 && shape.size() != 3) || std::ranges::any_of(shape, [](int64_t dim) { return dim < 1; }))
    throw Error(Fault::spec, "data.shape must be [channels, height, width] or [length], all positive");
  if (section.samples < 1) throw Error(Fault::spec, "data.samples must be positive");
  if (shape.size() == 1) refuse_image_keys(section);
  const int64_t elements = require_room(section, request.classes);
  const auto bytes =
      std::make_shared<const SyntheticBytes>(request.seed, request.classes.value_or(synthetic_classes), elements);
  const int64_t test_samples = std::max<int64_t>(section.samples / 8, 1);
  return {make(section, {bytes, 0, section.samples}), make(section, {bytes, section.samples, test_samples})};
}

void scan_synthetic(const DataRequest& request, DataScan& scan) {
  const spec::DataSection& section = request.section;
  try {
    require_room(section, request.classes);
  } catch (const Error& error) {
    return scan.findings.push_back(Finding::of("data", error));
  }
  scan.classes = request.classes.value_or(synthetic_classes);
  scan.train_samples = section.samples;
  scan.findings.push_back(Finding::fine(
      "data", fmt::format("{} synthetic samples of [{}]", section.samples, fmt::join(section.shape, ", "))));
  if (section.shape.size() != 3) return;
  scan.stored_shape = section.shape;
  const ImageLayout layout{PixelType::u8, section.shape[0], section.shape[1], section.shape[2]};
  check_shapes({ScannedSet{"training", layout, {}}}, section, scan.findings);
}

class SyntheticFormat : public Format {
 public:
  std::vector<FileName> file_names(const spec::DataSection&) const override { return {}; }
  DataPair open(const DataRequest& request, const std::vector<DataFile>&) const override {
    return open_synthetic(request);
  }
  void scan(const DataRequest& request, DataScan& scan) const override { scan_synthetic(request, scan); }
};

}  // namespace

SyntheticBytes::SyntheticBytes(uint64_t seed, int64_t classes, int64_t elements)
    : key_(philox_key(seed)), classes_(classes), elements_(elements) {
  for (int64_t c = 0; c < classes; ++c) {
    for (int64_t b = 0; b < blocks_of(elements); ++b) {
      const PhiloxWords words = philox({static_cast<uint32_t>(b), static_cast<uint32_t>(c), 0,
                                        static_cast<uint32_t>(PhiloxStream::synthetic_prototype)},
                                       key_);
      std::ranges::copy(bytes_of(words), std::back_inserter(prototypes_));
    }
  }
}

int64_t SyntheticBytes::label(int64_t index) const {
  return below(philox(counter(index, 0, PhiloxStream::synthetic_class), key_)[0], classes_);
}

void SyntheticBytes::write(int64_t index, uint8_t* out) const {
  const uint8_t* prototype = prototypes_.data() + label(index) * blocks_of(elements_) * kBlock;
  for (int64_t begin = 0; begin < elements_; begin += kBlock, prototype += kBlock) {
    std::array<uint8_t, kBlock> mixed =
        bytes_of(philox(counter(index, begin / kBlock, PhiloxStream::synthetic_noise), key_));
    for (size_t i = 0; i < kBlock; ++i) mixed[i] = static_cast<uint8_t>((prototype[i] + mixed[i]) / 2);
    std::copy_n(mixed.begin(), std::min(kBlock, elements_ - begin), out + begin);
  }
}

const Format& synthetic_format() {
  static const SyntheticFormat format;
  return format;
}

}  // namespace estrain::data
