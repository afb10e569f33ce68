#include "core/data/formats/tokens.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>

#include "core/base/error.h"
#include "core/data/files/file_bytes.h"
#include "core/data/files/file_pattern.h"
#include "core/data/formats/token_array.h"
#include "core/job/spec/defaults.h"

namespace estrain::data {
namespace {

constexpr int64_t kBytes = 256;  // the vocabulary of a text
constexpr size_t kTextBytesLookedAt = size_t{64} << 20;
// In larger token files, a token out of range is found when the token is read: the error names the sample.
constexpr int64_t kMostTokensChecked = int64_t{1} << 29;
constexpr std::string_view kNumpySignature = "\x93NUMPY";
constexpr std::string_view kLlmcSignatures[] = {{"\x88\xd8\x34\x01\x01\x00\x00\x00", 8},
                                                {"\xa1\xd9\x34\x01\x07\x00\x00\x00", 8}};

// Tokens [begin, end) of an array.
struct TokenPart {
  int64_t begin, end;

  int64_t samples(int64_t context) const { return end > begin ? (end - begin - 1) / context : 0; }
};

// A TokenSplit is the training and test parts of a file: the last floor(holdout * tokens) are kept for evaluation.
struct TokenSplit {
  TokenPart train;
  std::optional<TokenPart> test;
};

TokenSplit split_tokens(int64_t tokens, double holdout) {
  if (holdout <= 0) return {{0, tokens}, std::nullopt};
  const int64_t split = tokens - static_cast<int64_t>(static_cast<double>(tokens) * holdout);
  return {{0, split}, TokenPart{split, tokens}};
}

// Fault::corrupt naming the file and the number in the file of the token at `index`. `classes`: the number of classes
// of the model.
Error token_out_of_range(const TokenShards& tokens, int64_t index, int64_t classes) {
  const TokenShards::Place place = tokens.place_of(index);
  return Error::make(Fault::corrupt, "{}: token {} is {}, but model.classes allows {} (0 to {})", place.path,
                     place.index, tokens.at(index), classes, classes - 1)
      .advise("set model.classes to the size of the vocabulary; a wrong data.token_type also gives such numbers");
}

class TokenWindows : public Dataset {
 public:
  struct Options {
    int64_t context = 0;
    int64_t classes = 0;          // of the model
    const char* unit = "tokens";  // the name of tokens in messages
    bool is_checked = false;      // whether every token is known to be in range
  };
  // Throws Fault::spec if the part is too short for a sample.
  TokenWindows(const TokenShards& tokens, TokenPart part, const std::string& path, const Options& options);

  int64_t size() const override { return size_; }
  SampleShape shape() const override { return SampleShape::tokens(options_.context); }
  int64_t classes() const override { return options_.classes; }
  // Throws Fault::corrupt naming file, sample and token, if a token is out of range.
  void read(int64_t index, const SampleDraw& draw, std::byte* out_input, int64_t* out_target) const override;

 private:
  TokenShards tokens_;
  int64_t begin_, size_;
  Options options_;
};

TokenWindows::TokenWindows(const TokenShards& tokens, TokenPart part, const std::string& path, const Options& options)
    : tokens_(tokens), begin_(part.begin), options_(options) {
  if (options.context < 1) throw Error::make(Fault::bug, "{}: a sample of {} tokens", path, options.context);
  const int64_t count = part.end - part.begin;
  size_ = part.samples(options.context);
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
      throw token_out_of_range(tokens_, *outside, options_.classes).within(fmt::format("sample {}", index));
  }
  tokens_.copy(first, options_.context, reinterpret_cast<int64_t*>(out_input));
  tokens_.copy(first + 1, options_.context, out_target);
}

// Returns whether all tokens were checked.
bool check_range(const TokenShards& tokens, int64_t classes) {
  if (tokens.size() > kMostTokensChecked) return false;
  if (const std::optional<int64_t> outside = tokens.find_outside(classes, 0, tokens.size()))
    throw token_out_of_range(tokens, *outside, classes);
  return true;
}

// Throws Fault::corrupt if a byte of the text is not a token of a model with this many classes. Reads the whole text if
// the classes are fewer than 256.
void check_tokens(const FileBytes& file, const std::string& path, int64_t classes) {
  if (classes >= kBytes) return;
  const auto outside =
      std::ranges::find_if(file.bytes, [=](std::byte byte) { return static_cast<int64_t>(byte) >= classes; });
  if (outside == file.bytes.end()) return;
  throw Error::make(Fault::corrupt, "{}: byte {} at offset {} is not a token: there are {} classes (0 to {})", path,
                    static_cast<int>(*outside), outside - file.bytes.begin(), classes, classes - 1)
      .advise("remove model.classes, for all 256, or set it above the largest byte");
}

DataPair open_text(const std::vector<DataFile>& files, const DataRequest& request) {
  if (request.classes)
    for (const DataFile& file : files) check_tokens(file.content, file.path, *request.classes);
  const auto make = [&](const DataFile& file, TokenPart part) {
    const TokenWindows::Options made{request.text_context, kBytes, "bytes", true};
    const TokenShards bytes({{file.path, TokenArray::of_bytes(file.content)}});
    return std::make_unique<TokenWindows>(bytes, part, file.path, made);
  };
  const int64_t bytes = static_cast<int64_t>(files[0].content.size());
  const TokenSplit split = split_tokens(bytes, files.size() == 1 ? spec::holdout(request.section) : 0);
  DataPair pair;
  pair.train = make(files[0], split.train);
  if (split.test) pair.test = make(files[0], *split.test);
  if (files.size() > 1) pair.test = make(files[1], {0, static_cast<int64_t>(files[1].content.size())});
  return pair;
}

// The names of the test files follow those of the training files.
constexpr std::string_view kTrainingFiles = "training data";

// The training files, or the test files.
std::vector<DataFile> files_of_set(const std::vector<DataFile>& files, bool is_training) {
  std::vector<DataFile> chosen;
  std::ranges::copy_if(files, std::back_inserter(chosen),
                       [=](const DataFile& file) { return file.what.starts_with(kTrainingFiles) == is_training; });
  return chosen;
}

TokenShards shards_of(const std::vector<DataFile>& files, spec::TokenType flat) {
  std::vector<TokenShards::Shard> shards;
  for (const DataFile& file : files) shards.push_back({file.path, TokenArray::of(file, flat)});
  return TokenShards(std::move(shards));
}

// Throws Fault::spec if model.classes is not given; Fault::corrupt as TokenArray::of, and if a token is out of range
// among up to kMostTokensChecked.
DataPair open_tokens(const std::vector<DataFile>& files, const DataRequest& request) {
  if (!request.classes)
    throw Error(Fault::spec, "tokens need model.classes, the size of the vocabulary").advise("GPT-2's is 50257");
  const auto make = [&](const TokenShards& tokens, TokenPart part, const std::string& path, bool is_checked) {
    const TokenWindows::Options made{request.text_context, *request.classes, "tokens", is_checked};
    return std::make_unique<TokenWindows>(tokens, part, path, made);
  };
  const spec::DataSection& section = request.section;
  const bool has_test = !section.test_path.empty();
  const TokenShards tokens = shards_of(files_of_set(files, true), section.token_type);
  const bool is_checked = check_range(tokens, *request.classes);
  const TokenSplit split = split_tokens(tokens.size(), has_test ? 0 : spec::holdout(section));
  DataPair pair;
  pair.train = make(tokens, split.train, section.path, is_checked);
  if (split.test) pair.test = make(tokens, *split.test, section.path, is_checked);
  if (has_test) {
    const TokenShards test = shards_of(files_of_set(files, false), section.token_type);
    const bool test_is_checked = check_range(test, *request.classes);
    pair.test = make(test, {0, test.size()}, section.test_path, test_is_checked);
  }
  return pair;
}

// A TextPart is the bytes or tokens of a file that form samples.
struct TextPart {
  std::string name;
  TokenPart place;
  std::string unit = "bytes";
};

void check_text_part(const TextPart& part, const std::string& path, int64_t context, DataScan& scan) {
  const int64_t count = part.place.end - part.place.begin, samples = part.place.samples(context);
  if (part.name == "training") scan.train_samples = samples;
  if (samples > 0) {
    scan.findings.push_back(
        Finding::fine("data", fmt::format("{}: {} {} samples of {} tokens", path, samples, part.name, context)));
    return;
  }
  scan.findings.push_back(
      Finding::user_error("data",
                          fmt::format("{}: {} {} for the {} set are too few for a sample of {} tokens: {} are needed",
                                      path, count, part.unit, part.name, context, context + 1),
                          "use a longer text, shorten model.context, or change data.holdout (0: no test set)"));
}

std::string vocabulary(std::span<const std::byte> text) {
  std::array<bool, 256> occurs{};
  for (const std::byte byte : text) occurs[static_cast<size_t>(byte)] = true;
  return fmt::format("{} of the 256 bytes occur", std::ranges::count(occurs, true));
}

// Returns the size of the text, or nothing if the text is unreadable or empty.
std::optional<size_t> scan_text_file(const std::string& path, int64_t classes, std::vector<Finding>& findings) {
  try {
    const FileBytes file = FileBytes::open(path);
    if (file.size() == 0) throw Error::make(Fault::corrupt, "{}: the text is empty", path).advise("use another text");
    check_tokens(file, path, classes);
    const auto looked_at = file.bytes.first(std::min(file.size(), kTextBytesLookedAt));
    findings.push_back(
        Finding::fine("data", fmt::format("{}: {} bytes; {}", path, file.size(), vocabulary(looked_at))));
    if (std::memchr(looked_at.data(), 0, looked_at.size()) != nullptr) {
      findings.push_back(Finding::warn("data", path + ": contains zero bytes, so it may not be text",
                                       "check that it is neither compressed nor in UTF-16"));
    }
    return file.size();
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
    return std::nullopt;
  }
}

void scan_text(const DataRequest& request, DataScan& scan) {
  const spec::DataSection& section = request.section;
  const int64_t context = request.text_context, classes = request.classes.value_or(kBytes);
  scan.classes = classes;
  const bool held_out = section.test_path.empty() && spec::holdout(section) > 0;
  if (const std::optional<size_t> size = scan_text_file(section.path, classes, scan.findings)) {
    const TokenSplit split = split_tokens(static_cast<int64_t>(*size), held_out ? spec::holdout(section) : 0);
    check_text_part({"training", split.train}, section.path, context, scan);
    if (split.test) check_text_part({"test", *split.test}, section.path, context, scan);
  }
  if (section.test_path.empty()) return;
  if (const std::optional<size_t> size = scan_text_file(section.test_path, classes, scan.findings))
    check_text_part({"test", {0, static_cast<int64_t>(*size)}}, section.test_path, context, scan);
}

std::string words_for_shards(const std::vector<DataFile>& files, const TokenShards& tokens, spec::TokenType flat) {
  if (files.size() > 1) return fmt::format("{} tokens in {} files", tokens.size(), files.size());
  return fmt::format("{} {} tokens", tokens.size(), name_of(TokenArray::of(files.front(), flat).word()));
}

// Returns the number of tokens in the files, or nothing if the tokens are unusable. `path`: of the file, or the pattern
// of the files.
std::optional<int64_t> scan_token_files(const std::string& path, const std::vector<FileName>& names,
                                        const DataRequest& request, std::vector<Finding>& findings) {
  const int64_t classes = request.classes.value_or(0);
  const spec::TokenType flat = request.section.token_type;
  try {
    const std::vector<DataFile> files = open_files(names);
    const TokenShards tokens = shards_of(files, flat);
    if (const std::optional<int64_t> outside = tokens.find_outside(classes, 0, tokens.size()))
      throw token_out_of_range(tokens, *outside, classes);
    findings.push_back(Finding::fine(
        "data", fmt::format("{}: {}, all below {}", path, words_for_shards(files, tokens, flat), classes)));
    return tokens.size();
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
    return std::nullopt;
  }
}

// The names for one of the two paths. Returns none, with a finding, if no file has a name like the pattern.
std::vector<FileName> scan_names(const FileName& name, std::vector<Finding>& findings) {
  try {
    return spread(name);
  } catch (const Error& error) {
    findings.push_back(unreadable(error));
    return {};
  }
}

void scan_tokens(const DataRequest& request, const std::vector<FileName>& sets, DataScan& scan) {
  const int64_t context = request.text_context;
  scan.classes = request.classes.value_or(0);
  for (const FileName& set : sets) {
    const std::vector<FileName> names = scan_names(set, scan.findings);
    if (names.empty()) continue;
    const std::optional<int64_t> size = scan_token_files(set.path, names, request, scan.findings);
    if (!size) continue;
    const bool is_training = set.what == kTrainingFiles;
    const TokenSplit split = split_tokens(*size, sets.size() == 1 ? spec::holdout(request.section) : 0);
    check_text_part({is_training ? "training" : "test", split.train, "tokens"}, set.path, context, scan);
    if (split.test) check_text_part({"test", *split.test, "tokens"}, set.path, context, scan);
  }
}

class TextFormat : public Format {
 public:
  std::vector<FileName> file_names(const spec::DataSection& section) const override {
    return one_or_two(section, {}, "data.format = \"text\" needs data.path, the text's file");
  }
  DataPair open(const DataRequest& request, const std::vector<DataFile>& files) const override {
    return open_text(files, request);
  }
  void scan(const DataRequest& request, DataScan& scan) const override { scan_text(request, scan); }
  bool is_file(const std::filesystem::path&, std::string_view first_bytes) const override {
    return !first_bytes.empty() && first_bytes.find('\0') == first_bytes.npos;
  }
};

bool has_llmc_header(const std::filesystem::path& path) {
  std::string start(8, '\0');
  return std::ifstream(path, std::ios::binary).read(start.data(), 8) &&
         std::ranges::find(kLlmcSignatures, std::string_view(start)) != std::end(kLlmcSignatures);
}

// The shards of llm.c and modded-nanogpt: fineweb_train_000001.bin, ..., fineweb_val_000000.bin.
std::optional<DataPlace> llmc_shards(const std::filesystem::path& folder) {
  std::error_code refused;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, refused))
    if (std::string name = entry.path().filename(); name.ends_with(".bin")) names.push_back(std::move(name));
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const size_t at = name.find("_train_");
    if (at == name.npos) continue;
    const std::string test = name.substr(0, at) + "_val_";
    const bool has_test = std::ranges::any_of(names, [&](const std::string& other) { return other.starts_with(test); });
    if (has_test && has_llmc_header(folder / name))
      return DataPlace{folder / (name.substr(0, at) + "_train_*.bin"), folder / (test + "*.bin")};
  }
  return std::nullopt;
}

class TokensFormat : public Format {
 public:
  std::vector<FileName> file_names(const spec::DataSection& section) const override {
    std::vector<FileName> names;
    for (const FileName& set : sets(section)) std::ranges::move(spread(set), std::back_inserter(names));
    return names;
  }
  DataPair open(const DataRequest& request, const std::vector<DataFile>& files) const override {
    return open_tokens(files, request);
  }
  void scan(const DataRequest& request, DataScan& scan) const override {
    scan_tokens(request, sets(request.section), scan);
  }
  // nanoGPT's files.
  std::optional<DataPlace> in_folder(const std::filesystem::path& folder) const override {
    const std::filesystem::path train = folder / "train.bin", test = folder / "val.bin";
    return exists(train) && exists(test) ? std::optional(DataPlace{train, test}) : llmc_shards(folder);
  }
  bool is_file(const std::filesystem::path&, std::string_view first_bytes) const override {
    const auto begins_with = [&](std::string_view signature) { return first_bytes.starts_with(signature); };
    return begins_with(kNumpySignature) || std::ranges::any_of(kLlmcSignatures, begins_with);
  }

 private:
  static std::vector<FileName> sets(const spec::DataSection& section) {
    return one_or_two(section, {}, "data.format = \"tokens\" needs data.path, the tokens' file");
  }
};

}  // namespace

const Format& text_format() {
  static const TextFormat format;
  return format;
}

const Format& tokens_format() {
  static const TokensFormat format;
  return format;
}

}  // namespace estrain::data
