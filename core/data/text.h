#pragma once
// A text as a language model's data: its bytes are the tokens, 0 to 255.
//
// With T tokens of context, sample i reads bytes [i*T, i*T + T) and is to predict [i*T + 1, i*T + T + 1): samples do
// not overlap, and a text of n bytes has (n - 1) / T of them, rounded down.

#include <cstdint>

#include "core/data/dataset.h"
#include "core/data/file_bytes.h"
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

// data.path for training; data.test_path for the test set where given, else the last floor(holdout * bytes) bytes of
// data.path, which training then leaves out.
DataPair open_text(const spec::DataSection& section, int64_t context);

}  // namespace estrain::data
