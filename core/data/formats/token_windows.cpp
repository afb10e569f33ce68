#include "core/data/formats/token_windows.h"

#include <algorithm>

#include "core/base/error.h"

namespace estrain::data {
namespace {

// Returns whether all tokens were checked.
bool check_range(const TokenArray& tokens, const std::string& path, int64_t classes) {
  if (tokens.size() > most_tokens_checked) return false;
  if (const std::optional<int64_t> outside = tokens.find_outside(classes, 0, tokens.size()))
    throw token_out_of_range(tokens, *outside, classes, path);
  return true;
}

}  // namespace

TokenSplit split_tokens(int64_t tokens, double holdout) {
  if (holdout <= 0) return {{0, tokens}, std::nullopt};
  const int64_t split = tokens - static_cast<int64_t>(static_cast<double>(tokens) * holdout);
  return {{0, split}, TokenPart{split, tokens}};
}

TokenWindows::TokenWindows(TokenArray tokens, TokenPart part, const std::string& path, const Options& options)
    : tokens_(std::move(tokens)), begin_(part.begin), path_(path), options_(options) {
  if (options.context < 1) throw Error::make(Fault::bug, "{}: a sample of {} tokens", path, options.context);
  const int64_t count = part.end - part.begin;
  size_ = count > 0 ? (count - 1) / options.context : 0;
  if (size_ == 0) {
    throw Error::make(Fault::spec, "{}: {} {} from {} {} on are too few for a sample: {} are needed", path, count,
                      options.unit, std::string_view(options.unit).substr(0, std::string_view(options.unit).size() - 1),
                      part.begin, options.context + 1)
        .advise("use a longer text, shorten model.context, or change data.holdout (0: no test set)");
  }
}

void TokenWindows::read(int64_t index, const SampleDraw&, std::byte* out_input, int64_t* out_target) const {
  const int64_t first = begin_ + index * options_.context;
  if (!options_.is_checked) {
    if (const auto outside = tokens_.find_outside(options_.classes, first, options_.context + 1))
      throw token_out_of_range(tokens_, *outside, options_.classes, path_).within(fmt::format("sample {}", index));
  }
  tokens_.copy(first, options_.context, reinterpret_cast<int64_t*>(out_input));
  tokens_.copy(first + 1, options_.context, out_target);
}

Error token_out_of_range(const TokenArray& tokens, int64_t index, int64_t classes, const std::string& path) {
  return Error::make(Fault::corrupt, "{}: token {} is {}, but model.classes allows {} (0 to {})", path, index,
                     tokens.at(index), classes, classes - 1)
      .advise("set model.classes to the size of the vocabulary; a wrong data.token_type also gives such numbers");
}

DataPair open_tokens(const std::vector<DataFile>& files, const TokenOptions& options) {
  if (!options.classes)
    throw Error(Fault::spec, "tokens need model.classes, the size of the vocabulary").advise("GPT-2's is 50257");
  const auto make = [&](const TokenArray& tokens, TokenPart part, const std::string& path, bool is_checked) {
    const TokenWindows::Options made{options.context, *options.classes, "tokens", is_checked};
    return std::make_unique<TokenWindows>(tokens, part, path, made);
  };
  const TokenArray tokens = TokenArray::of(files[0], options.type);
  const bool is_checked = check_range(tokens, files[0].path, *options.classes);
  const TokenSplit split = split_tokens(tokens.size(), files.size() == 1 ? options.holdout : 0);
  DataPair pair;
  pair.train = make(tokens, split.train, files[0].path, is_checked);
  if (split.test) pair.test = make(tokens, *split.test, files[0].path, is_checked);
  if (files.size() > 1) {
    const TokenArray test = TokenArray::of(files[1], options.type);
    const bool test_is_checked = check_range(test, files[1].path, *options.classes);
    pair.test = make(test, {0, test.size()}, files[1].path, test_is_checked);
  }
  return pair;
}

}  // namespace estrain::data
