// Token files: flat, numpy and llm.c formats, and their errors.
#include <doctest/doctest.h>

#include <array>

#include "core/data/format_table.h"
#include "core/data/formats/dataset.h"
#include "core/data/formats/token_array.h"
#include "data_files.h"

namespace estrain::data {
namespace {

template <typename T>
std::string words(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string npy(const std::string& type, const std::string& shape, const std::string& values, int version = 1) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  const size_t start = version == 1 ? 10 : 12;
  header.resize((start + header.size() + 1 + 63) / 64 * 64 - start - 1, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (size_t i = 0; i < (version == 1 ? 2u : 4u); ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header + values;
}

std::string llmc(int32_t magic, int32_t version, int32_t count, const std::string& values) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic, header[1] = version, header[2] = count;
  return words(header) + values;
}

struct TokenFolder : DataFolder {
  spec::DataSection section(const std::string& name, const std::string& content) const {
    write(name, content);
    spec::DataSection section;
    section.format = spec::DataFormat::tokens;
    section.path = *this / name;
    section.holdout = 0;
    return section;
  }
};

std::vector<int64_t> all_tokens(const Dataset& set, int64_t context) {
  std::vector<int64_t> all, input(static_cast<size_t>(context)), target(static_cast<size_t>(context));
  for (int64_t i = 0; i < set.size(); ++i) {
    set.read(i, SampleDraw::fixed(), reinterpret_cast<std::byte*>(input.data()), target.data());
    if (i == 0) all.push_back(input[0]);
    CHECK(all.back() == input[0]);  // the next sample begins where the targets of this one end
    for (size_t t = 0; t + 1 < input.size(); ++t) CHECK(input[t + 1] == target[t]);
    all.insert(all.end(), target.begin(), target.end());
  }
  return all;
}

const std::vector<uint16_t> kShort = {0, 1, 50256, 3, 65535, 5, 6, 7, 8};
const std::vector<int64_t> kTokens(kShort.begin(), kShort.end());

TEST_CASE("every kind of token file gives the same samples") {
  const TokenFolder folder;
  const std::vector<uint32_t> wide(kShort.begin(), kShort.end());
  const std::vector<int32_t> i32(kShort.begin(), kShort.end());
  const std::vector<int64_t> i64(kShort.begin(), kShort.end());
  const std::pair<const char*, std::string> files[] = {
      {"flat", words(kShort)},
      {"u2.npy", npy("<u2", "(9,)", words(kShort))},
      {"u4.npy", npy("<u4", "(9,)", words(wide))},
      {"i4.npy", npy("<i4", "(9,)", words(i32), 2)},
      {"i8.npy", npy("<i8", "(9,)", words(i64))},
      {"gpt2.bin", llmc(20240520, 1, 9, words(kShort))},
      {"llama3.bin", llmc(20240801, 7, 9, words(wide))},
  };
  for (const auto& file : files) {
    const auto& name = file.first;
    const auto& content = file.second;
    CAPTURE(name);
    const DataPair pair = open(folder.section(name, content), 4, 0, 65536);
    CHECK(pair.train->shape() == SampleShape::tokens(4));
    CHECK(pair.train->size() == 2);
    CHECK(pair.train->classes() == 65536);
    CHECK_FALSE(pair.test);
    CHECK(all_tokens(*pair.train, 4) == kTokens);
  }
  spec::DataSection section = folder.section("wide", words(wide));
  section.token_type = spec::TokenType::u32;
  CHECK(all_tokens(*open(section, 4, 0, 65536).train, 4) == kTokens);
}

TEST_CASE("a held out part, and a test file instead of it") {
  const TokenFolder folder;
  std::vector<uint16_t> values(100);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i);
  spec::DataSection section = folder.section("train.bin", words(values));
  section.holdout = 0.25;
  DataPair pair = open(section, 8, 0, 100);
  CHECK(pair.train->size() == 9);  // 75 tokens
  CHECK(pair.test->size() == 3);   // 25
  CHECK(all_tokens(*pair.test, 8).front() == 75);
  folder.write("val.bin", words(kShort));
  section.test_path = folder / "val.bin";
  pair = open(section, 8, 0, 65536);
  CHECK(pair.train->size() == 12);
  CHECK(all_tokens(*pair.test, 8) == kTokens);
}

TEST_CASE("tokens out of range are named: file, place and number") {
  const TokenFolder folder;
  const spec::DataSection section = folder.section("train.bin", words(kShort));
  const Error error = error_of([&] { open(section, 4, 0, 50257); });
  CHECK(error.fault() == Fault::corrupt);
  CHECK(contains(error.message(), "train.bin: token 4 is 65535, but model.classes allows 50257"));
  CHECK(open(section, 4, 0, 65536).train->size() == 2);
  CHECK(error_of([&] { open(section, 4, 0); }).fault() == Fault::spec);
  const std::vector<int64_t> negative = {0, 1, -1, 2, 3};
  CHECK(
      contains(error_of([&] { open(folder.section("n.npy", npy("<i8", "(5,)", words(negative))), 4, 0, 9); }).message(),
               "token 2 is -1"));
}

TEST_CASE("the first token out of range is found wherever it stands") {
  const TokenFolder folder;
  std::vector<uint16_t> values(20'000, 6);
  for (const size_t at : {size_t{0}, size_t{4095}, size_t{4096}, size_t{19'999}}) {
    std::vector<uint16_t> wrong = values;
    wrong[at] = 7;
    folder.write("f", words(wrong));
    const DataFile file{"", "f", FileBytes::open(folder / "f")};
    const TokenArray tokens = TokenArray::of(file, spec::TokenType::u16);
    CHECK(tokens.find_outside(7, 0, 20'000) == static_cast<int64_t>(at));
    CHECK(tokens.find_outside(8, 0, 20'000) == std::nullopt);
    CHECK(tokens.find_outside(7, static_cast<int64_t>(at) + 1, 20'000 - static_cast<int64_t>(at) - 1) == std::nullopt);
  }
}

TEST_CASE("damaged token files are refused in words") {
  const TokenFolder folder;
  const std::string values = words(kShort);
  const std::pair<std::string, std::string> cases[] = {
      {values.substr(1), "17 bytes are not a whole number of uint16 tokens"},
      {npy("<u2", "(9,)", values.substr(2)), "truncated: its header declares 9 uint16 tokens, but 16 bytes follow"},
      {npy("<u2", "(9,)", values + "xx"), "too long"},
      {npy("<u2", "(9,)", values + "x"), "too long"},
      {npy("<u2", "(3, 3)", values), "has the shape (3, 3), not one dimension"},
      {npy("<u2", "()", values), "not one dimension"},
      {npy("<u2", "(99999999999999999999,)", values), "not one dimension"},
      {npy("<f4", "(9,)", values), "holds '<f4'"},
      {npy(">u2", "(9,)", values), "holds '>u2'"},
      {npy("<u2", "(9,)", values).substr(0, 40), "truncated inside its header"},
      {"\x93NUMPY", "truncated inside its header"},
      {"\x93NUMPY\x01" + std::string(40, '\0'), "has a header without fortran_order"},
      {llmc(20240520, 1, 10, values), "truncated: its header declares 10"},
      {llmc(20240520, 1, -1, values), "truncated"},
      {words(std::vector<uint16_t>(4)), "4 tokens from token 0 on are too few for a sample: 5 are needed"},
      {"", "0 tokens from token 0 on are too few for a sample"},
  };
  for (const auto& damaged : cases) {
    const auto& content = damaged.first;
    const auto& expected = damaged.second;
    CAPTURE(expected);
    const spec::DataSection section = folder.section("file", content);
    const std::string message = error_of([&] { open(section, 4, 0, 65536); }).message();
    CAPTURE(message);
    CHECK(contains(message, expected));
    const DataScan found = scan(section, 4, 65536);
    CHECK_FALSE(found.fine());
  }
}

TEST_CASE("a scan tells how many samples there are") {
  const TokenFolder folder;
  spec::DataSection section = folder.section("train.npy", npy("<u2", "(9,)", words(kShort)));
  DataScan found = scan(section, 4, 65536);
  CHECK(found.fine());
  CHECK(found.train_samples == 2);
  CHECK(contains(found.findings[0].seen, "train.npy: 9 uint16 tokens, all below 65536"));
  CHECK(contains(found.findings[1].seen, "2 training samples of 4 tokens"));
  found = scan(section, 4, 100);
  CHECK(contains(found.findings[0].seen, "token 2 is 50256"));
  section.holdout = 0.5;
  found = scan(section, 4, 65536);
  CHECK(contains(found.findings.back().seen, "4 tokens for the test set are too few for a sample of 4 tokens"));
}

// Nine tokens in three shards of different kinds, the second without a token.
struct ShardFolder : TokenFolder {
  ShardFolder() {
    const std::vector<uint16_t> start(kShort.begin(), kShort.begin() + 4), end(kShort.begin() + 4, kShort.end());
    write("web_train_000002.bin", llmc(20240520, 1, 4, words(start)));
    write("web_train_000003.bin", "");
    write("web_train_000010.npy", npy("<u2", "(5,)", words(end)));
    write("web_val_000000.bin", llmc(20240520, 1, 9, words(kShort)));
    write(".web_train_000001.bin", "x");
  }
  spec::DataSection train() const {
    spec::DataSection section = section_of(spec::DataFormat::tokens, *this / "web_train_*");
    section.holdout = 0;
    return section;
  }
};

TEST_CASE("shards are one array of tokens, in the order of their names") {
  const ShardFolder folder;
  spec::DataSection section = folder.train();
  DataPair pair = open(section, 4, 0, 65536);
  CHECK(pair.train->size() == 2);
  CHECK(all_tokens(*pair.train, 4) == kTokens);
  REQUIRE(pair.files.size() == 3);
  CHECK(pair.files[0].what == "training data web_train_000002.bin");
  CHECK(pair.files[2].path == folder / "web_train_000010.npy");
  section.holdout = 0.5;
  CHECK(all_tokens(*open(section, 2, 0, 65536).test, 2) ==
        std::vector<int64_t>(kTokens.begin() + 5, kTokens.end() - 1));
  section.test_path = folder / "web_val_*.bin";
  pair = open(section, 4, 0, 65536);
  CHECK(all_tokens(*pair.train, 4) == kTokens);
  CHECK(all_tokens(*pair.test, 4) == kTokens);
  CHECK(pair.files[3].what == "test data web_val_000000.bin");
}

TEST_CASE("a message about shards names the shard, and the place in the shard") {
  const ShardFolder folder;
  const auto message = [&](const spec::DataSection& section) {
    return error_of([&] { open(section, 4, 0, 60000); }).message();
  };
  CHECK(contains(message(folder.train()), "web_train_000010.npy: token 0 is 65535"));
  CHECK(contains(scan(folder.train(), 4, 60000).findings[0].seen, "web_train_000010.npy: token 0 is 65535"));
  folder.write("web_train_000002.bin", llmc(20240520, 1, 5, words(kShort)));
  CHECK(contains(message(folder.train()), "web_train_000002.bin: too long: its header declares 5"));
  spec::DataSection section = folder.train();
  section.path = folder / "other_*.bin";
  CHECK(contains(message(section), "other_*.bin: no file has a name like this pattern"));
  CHECK_FALSE(scan(section, 4, 65536).fine());
  section.path = folder / "web_v*.bin";
  section.holdout = 0.9;
  CHECK(contains(error_of([&] { open(section, 4, 0, 65536); }).message(),
                 "web_v*.bin: 1 tokens from token 0 on are too few"));
}

TEST_CASE("a scan counts the tokens of all shards") {
  const ShardFolder folder;
  const DataScan found = scan(folder.train(), 4, 65536);
  CHECK(found.fine());
  CHECK(found.train_samples == 2);
  CHECK(contains(found.findings[0].seen, "web_train_*: 9 tokens in 3 files, all below 65536"));
}

TEST_CASE("a folder of llm.c's shards is recognised") {
  const ShardFolder folder;
  const spec::DataSection found = recognise(folder.path());
  CHECK(found.format == spec::DataFormat::tokens);
  CHECK(found.path == folder / "web_train_*.bin");
  CHECK(found.test_path == folder / "web_val_*.bin");
}

}  // namespace
}  // namespace estrain::data
