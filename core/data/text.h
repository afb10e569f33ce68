#pragma once
// A text as a language model's data: its bytes are the tokens, 0 to 255, cut into samples as token_windows.h says.

#include <cstdint>
#include <optional>
#include <string>

#include "core/data/data_files.h"
#include "core/data/dataset.h"

namespace estrain::data {

// Throws Fault::corrupt where a byte of `file` is no token of a model of so many classes. Reads it all, if they are
// fewer than 256.
void check_tokens(const FileBytes& file, const std::string& path, int64_t classes);

// The first of `files` for training; the second one for the test set where there is one, else the last
// floor(holdout * bytes) bytes of the first, which training then leaves out.
struct TextOptions {
  double holdout = 0;
  int64_t context = 0;
  std::optional<int64_t> classes;  // of the model, where the spec says so; all tokens are checked
};
DataPair open_text(const std::vector<DataFile>& files, const TextOptions& options);

}  // namespace estrain::data
