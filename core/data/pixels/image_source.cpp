#include "core/data/pixels/image_source.h"

#include <algorithm>

#include "core/base/error.h"

namespace estrain::data {
namespace {

// Makes planes of pixels with adjacent channels.
template <typename Value>
void separate(const std::byte* from, const ImageLayout& layout, std::byte* to) {
  const auto* in = reinterpret_cast<const Value*>(from);
  auto* out = reinterpret_cast<Value*>(to);
  const int64_t area = layout.height * layout.width;
  for (int64_t c = 0; c < layout.channels; ++c)
    for (int64_t i = 0; i < area; ++i) *out++ = in[i * layout.channels + c];
}

}  // namespace

void ImageTable::append(Block block, const std::vector<int64_t>& labels, std::string label_source) {
  segments_.push_back({size(), std::move(block), std::move(label_source)});
  labels_.insert(labels_.end(), labels.begin(), labels.end());
  // INT64_MAX has no successor, and is out of range for every number of classes.
  if (!labels.empty()) classes_ = std::max(classes_, std::min(std::ranges::max(labels), INT64_MAX - 1) + 1);
}

void ImageTable::set_classes(int64_t classes) {
  const auto outside = std::ranges::find_if(labels_, [=](int64_t label) { return label < 0 || label >= classes; });
  if (outside != labels_.end()) {
    throw Error::make(Fault::corrupt, "{} is out of range: there are {} classes (0 to {})",
                      place_of(outside - labels_.begin()), classes, classes - 1)
        .advise("correct the labels, or set model.classes above the largest of them");
  }
  classes_ = classes;
}

void ImageTable::take_classes_of_labels() {
  if (classes_ <= most_classes) return set_classes(classes_);
  const int64_t index = std::ranges::max_element(labels_) - labels_.begin();
  throw Error::make(Fault::corrupt, "{} is out of range: there are at most {} classes", place_of(index), most_classes)
      .advise("correct the labels");
}

std::string ImageTable::place_of(int64_t index) const {
  const Segment& segment = segment_of(index);
  return fmt::format("{}: label {} of sample {}", segment.label_source, label(index), index - segment.begin);
}

const ImageTable::Segment& ImageTable::segment_of(int64_t index) const {
  if (segments_.size() == 1) return segments_.front();
  const auto behind = std::ranges::upper_bound(segments_, index, {}, &Segment::begin);
  return *std::prev(behind);
}

const std::byte* ImageTable::pixels(int64_t index, std::vector<std::byte>& scratch) const {
  const Segment& segment = segment_of(index);
  const std::byte* stored = segment.block.first + static_cast<size_t>(index - segment.begin) * segment.block.stride;
  if (!segment.block.is_interleaved) return stored;
  scratch.resize(layout_.bytes());
  if (layout_.type == PixelType::u8) {
    separate<uint8_t>(stored, layout_, scratch.data());
  } else {
    separate<float>(stored, layout_, scratch.data());
  }
  return scratch.data();
}

}  // namespace estrain::data
