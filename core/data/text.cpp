#include "core/data/text.h"

#include <algorithm>

#include "core/base/error.h"

namespace estrain::data {

TextDataset::TextDataset(FileBytes file, Part part, int64_t context, const std::string& path)
    : file_(std::move(file)), begin_(file_.data() + part.begin), context_(context) {
  if (context < 1) throw Error::make(Fault::bug, "{}: a sample of {} tokens", path, context);
  const int64_t bytes = static_cast<int64_t>(part.end - part.begin);
  size_ = bytes > 0 ? (bytes - 1) / context : 0;
  if (size_ == 0) {
    throw Error::make(Fault::spec, "{}: {} bytes from byte {} on do not make one sample: {} are needed", path, bytes,
                      part.begin, context + 1)
        .advise("use a longer text, shorten model.context, or change data.holdout (0: no test set)");
  }
}

void TextDataset::read(int64_t index, const SampleDraw&, std::byte* out_input, int64_t* out_target) const {
  const std::byte* text = begin_ + index * context_;
  int64_t* tokens = reinterpret_cast<int64_t*>(out_input);
  for (int64_t i = 0; i < context_; ++i) tokens[i] = static_cast<uint8_t>(text[i]);
  for (int64_t i = 0; i < context_; ++i) out_target[i] = static_cast<uint8_t>(text[i + 1]);
}

void check_tokens(const FileBytes& file, const std::string& path, int64_t classes) {
  if (classes >= 256) return;
  const auto outside =
      std::ranges::find_if(file.bytes, [=](std::byte byte) { return static_cast<int64_t>(byte) >= classes; });
  if (outside == file.bytes.end()) return;
  throw Error::make(Fault::corrupt, "{}: byte {} at offset {} is no token: there are {} classes (0 to {})", path,
                    static_cast<int>(*outside), outside - file.bytes.begin(), classes, classes - 1)
      .advise("leave out model.classes, for all 256, or set it above the largest byte");
}

DataPair open_text(const std::vector<DataFile>& files, const TextOptions& options) {
  if (options.classes)
    for (const DataFile& file : files) check_tokens(file.content, file.path, *options.classes);
  const auto make = [&](const DataFile& file, TextDataset::Part part) {
    return std::make_unique<TextDataset>(file.content, part, options.context, file.path);
  };
  const DataFile& text = files.front();
  const size_t bytes = text.content.size();
  const bool held_out = files.size() == 1 && options.holdout > 0;
  const size_t test_bytes = held_out ? static_cast<size_t>(static_cast<double>(bytes) * options.holdout) : 0;
  const size_t split = bytes - test_bytes;
  DataPair pair;
  pair.train = make(text, {0, split});
  if (held_out) pair.test = make(text, {split, bytes});
  if (files.size() > 1) pair.test = make(files[1], {0, files[1].content.size()});
  return pair;
}

}  // namespace estrain::data
