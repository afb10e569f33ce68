#include "core/data/formats/text.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/formats/token_windows.h"

namespace estrain::data {

void check_tokens(const FileBytes& file, const std::string& path, int64_t classes) {
  if (classes >= 256) return;
  const auto outside =
      std::ranges::find_if(file.bytes, [=](std::byte byte) { return static_cast<int64_t>(byte) >= classes; });
  if (outside == file.bytes.end()) return;
  throw Error::make(Fault::corrupt, "{}: byte {} at offset {} is not a token: there are {} classes (0 to {})", path,
                    static_cast<int>(*outside), outside - file.bytes.begin(), classes, classes - 1)
      .advise("remove model.classes, for all 256, or set it above the largest byte");
}

DataPair open_text(const std::vector<DataFile>& files, const TextOptions& options) {
  if (options.classes)
    for (const DataFile& file : files) check_tokens(file.content, file.path, *options.classes);
  const auto make = [&](const DataFile& file, TokenPart part) {
    const TokenWindows::Options made{options.context, 256, "bytes", true};
    return std::make_unique<TokenWindows>(TokenArray::of_bytes(file.content), part, file.path, made);
  };
  const int64_t bytes = static_cast<int64_t>(files[0].content.size());
  const TokenSplit split = split_tokens(bytes, files.size() == 1 ? options.holdout : 0);
  DataPair pair;
  pair.train = make(files[0], split.train);
  if (split.test) pair.test = make(files[0], *split.test);
  if (files.size() > 1) pair.test = make(files[1], {0, static_cast<int64_t>(files[1].content.size())});
  return pair;
}

}  // namespace estrain::data
