#pragma once
// A text as a language model's data: its bytes are the tokens, 0 to 255.
//
// With T tokens of context, sample i reads bytes [i*T, i*T + T) and is to predict [i*T + 1, i*T + T + 1): samples do
// not overlap, and a text of n bytes has (n - 1) / T of them, rounded down.

#include <cstdint>
#include <optional>
#include <string>

#include "core/data/data_files.h"
#include "core/data/dataset.h"
#include "core/spec/job_spec.h"

namespace estrain::data {

class TextDataset : public Dataset {
 public:
  // Bytes [begin, end) of `file`. Throws Fault::spec where they do not make one sample.
  struct Part {
    size_t begin, end;
  };
  TextDataset(FileBytes file, Part part, int64_t context, const std::string& path);

  int64_t size() const override { return size_; }
  SampleShape shape() const override { return SampleShape::tokens(context_); }
  int64_t classes() const override { return 256; }
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override;

 private:
  FileBytes file_;
  const std::byte* begin_;
  int64_t context_, size_;
};

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
