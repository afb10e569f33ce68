// Text as tokens, and what is refused.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "tests/core/data/formats/opened_samples.h"

namespace estrain::data {
namespace {

using spec::DataFormat;
using spec::DataSection;

TEST_CASE("text: bytes and the bytes behind them") {
  DataFolder folder;
  folder.write("text", "abcdefghijklmnopqrs\xff");  // 20 bytes
  DataSection section = section_of(DataFormat::text, folder / "text");
  const auto tokens = [](const Dataset& dataset, int64_t index) {
    std::array<std::string, 2> result;
    std::vector<int64_t> input(4), target(4);
    dataset.read(index, SampleDraw::fixed(), reinterpret_cast<std::byte*>(input.data()), target.data());
    for (int64_t token : input) result[0].push_back(static_cast<char>(token));
    for (int64_t token : target) result[1].push_back(static_cast<char>(token));
    CHECK(std::ranges::all_of(target, [](int64_t token) { return token >= 0 && token < 256; }));
    return result;
  };
  using Pair = std::array<std::string, 2>;
  SUBCASE("the last part is held out") {
    section.holdout = 0.3;  // 6 bytes
    const DataPair pair = open(section, 4, 0);
    CHECK(pair.train->shape() == SampleShape::tokens(4));
    CHECK(pair.train->classes() == 256);
    CHECK(pair.train->size() == 3);  // 14 bytes
    CHECK(tokens(*pair.train, 0) == Pair{"abcd", "bcde"});
    CHECK(tokens(*pair.train, 2) == Pair{"ijkl", "jklm"});
    CHECK(pair.test->size() == 1);
    CHECK(tokens(*pair.test, 0) == Pair{"opqr", "pqrs"});
  }
  SUBCASE("nothing is held out") {
    section.holdout = 0;
    const DataPair pair = open(section, 4, 0);
    CHECK_FALSE(pair.test);
    CHECK(pair.train->size() == 4);
    CHECK(open(section, 19, 0).train->size() == 1);
  }
  SUBCASE("a test file") {
    folder.write("test", "0123456789");
    section.test_path = folder / "test";
    const DataPair pair = open(section, 4, 0);
    CHECK(pair.train->size() == 4);
    CHECK(pair.test->size() == 2);
    CHECK(tokens(*pair.test, 1) == Pair{"4567", "5678"});
  }
  SUBCASE("too short for one sample, in training or in the test set") {
    section.holdout = 0;
    const Error error = error_of([&] { open(section, 20, 0); });
    CHECK(error.fault() == Fault::spec);
    CHECK(contains(error.message(), "21 are needed"));
    section.holdout = 0.1;
    CHECK(contains(error_of([&] { open(section, 4, 0); }).message(), "2 bytes from byte 18 on"));
    folder.write("text", "");
    CHECK(error_of([&] { open(section, 4, 0); }).fault() == Fault::spec);
  }
  SUBCASE("a byte that is no token of the model") {
    section.holdout = 0;
    CHECK(open(section, 4, 0, 256).train->size() == 4);
    const Error error = error_of([&] { open(section, 4, 0, 128); });
    CHECK(error.fault() == Fault::corrupt);
    CHECK(contains(error.message(), "text: byte 255 at offset 19 is not a token: there are 128 classes (0 to 127)"));
    folder.write("test", "0123456789\x80");
    folder.write("text", "abcdefghijklmnopqrst");
    section.test_path = folder / "test";
    CHECK(contains(error_of([&] { open(section, 4, 0, 128); }).message(), "test: byte 128 at offset 10"));
    CHECK(open(section, 4, 0, 129).test->size() == 2);
  }
  SUBCASE("missing") {
    section.path = folder / "no such text";
    const Error error = refusal(section);
    CHECK(error.fault() == Fault::io);
    CHECK(contains(error.message(), "no such text"));
  }
}

}  // namespace
}  // namespace estrain::data
