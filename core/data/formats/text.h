#pragma once
// A text as a language model's data: its bytes are the tokens, 0 to 255, cut into samples by token_windows.h.

#include <cstdint>
#include <optional>
#include <string>

#include "core/data/files/data_files.h"
#include "core/data/formats/dataset.h"

namespace estrain::data {

// Throws Fault::corrupt if a byte of `file` is not a token of a model with this many classes. Reads the whole file if
// they are fewer than 256.
void check_tokens(const FileBytes& file, const std::string& path, int64_t classes);

// The first of `files` is for training. The test set is the second file if there is one; otherwise the last
// floor(holdout * bytes) bytes of the first, which training then omits.
struct TextOptions {
  double holdout = 0;
  int64_t context = 0;
  std::optional<int64_t> classes;  // of the model, if the spec sets it; all tokens are checked
};
DataPair open_text(const std::vector<DataFile>& files, const TextOptions& options);

}  // namespace estrain::data
