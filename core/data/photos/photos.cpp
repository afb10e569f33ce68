#include "core/data/photos/photos.h"

#include "core/base/error.h"

namespace estrain::data {

std::vector<int64_t> labels_of(const PhotoSource& source) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < source.size(); ++i) labels.push_back(source.label(i));
  return labels;
}

void require_labels(const PhotoSource& source, int64_t classes) {
  for (int64_t i = 0; i < source.size(); ++i) {
    const int64_t label = source.label(i);
    if (label >= 0 && label < classes) continue;
    throw Error::make(Fault::corrupt, "{}: label {} of sample {} is out of range: there are {} classes (0 to {})",
                      source.name(i), label, i, classes, classes - 1)
        .advise("correct the labels, or set model.classes above the largest of them");
  }
}

void note_left_out(DataPair& pair, const std::string& path, const LeftOut& left_out) {
  if (left_out.count() > 0) pair.notes.push_back(fmt::format("{}: {}", path, left_out.words()));
}

void PhotoDataset::read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const {
  thread_local std::vector<std::byte> file;
  thread_local image::Image photo;
  try {
    image::decode(source_->read(index, file), photo, pixels_.orientation());
    pixels_.show(photo, draw, reinterpret_cast<float*>(out_input));
  } catch (const Error& error) {
    throw about_photo(error, *source_, index);
  }
  *out_target = source_->label(index);
}

}  // namespace estrain::data
