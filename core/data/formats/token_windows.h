#pragma once
// Tokens as a language model's data, cut into samples.
//
// With T tokens of context, sample i reads tokens [i*T, i*T + T) and must predict [i*T + 1, i*T + T + 1). Samples do
// not overlap, and n tokens give (n - 1) / T samples, rounded down.

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/data/files/data_files.h"
#include "core/data/formats/dataset.h"
#include "core/data/formats/token_array.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

// In larger token files, a token out of range is found when it is read: the error names the sample.
constexpr int64_t most_tokens_checked = int64_t{1} << 29;

// Tokens [begin, end) of an array.
struct TokenPart {
  int64_t begin, end;
};

// The training and test parts of one file: the last floor(holdout * tokens) are kept for evaluation.
struct TokenSplit {
  TokenPart train;
  std::optional<TokenPart> test;
};
TokenSplit split_tokens(int64_t tokens, double holdout);

class TokenWindows : public Dataset {
 public:
  struct Options {
    int64_t context = 0;
    int64_t classes = 0;          // of the model
    const char* unit = "tokens";  // the name of tokens in messages
    bool is_checked = false;      // whether every token is known to be in range
  };
  // Throws Fault::spec if the part is too short for a sample.
  TokenWindows(TokenArray tokens, TokenPart part, const std::string& path, const Options& options);

  int64_t size() const override { return size_; }
  SampleShape shape() const override { return SampleShape::tokens(options_.context); }
  int64_t classes() const override { return options_.classes; }
  // Throws Fault::corrupt naming file, sample and token, if a token is out of range.
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override;

 private:
  TokenArray tokens_;
  int64_t begin_, size_;
  std::string path_;
  Options options_;
};

// Fault::corrupt naming the token at `index`. `classes`: those of the model.
Error token_out_of_range(const TokenArray& tokens, int64_t index, int64_t classes, const std::string& path);

// The first of `files` is for training. The test set is the second file if there is one, otherwise the held-out part.
// Throws Fault::spec if model.classes is not given or the tokens are too few for a sample; Fault::corrupt as
// TokenArray::of, and if a token in a file of up to most_tokens_checked is out of range.
struct TokenOptions {
  double holdout = 0;
  int64_t context = 0;
  spec::TokenType type = spec::TokenType::u16;
  std::optional<int64_t> classes;  // of the model
};
DataPair open_tokens(const std::vector<DataFile>& files, const TokenOptions& options);

}  // namespace estrain::data
