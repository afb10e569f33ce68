#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/base/error.h"
#include "core/formats/toml/literal.h"
#include "core/formats/toml/parse.h"
#include "tests/error_of.h"

namespace estrain::toml {
namespace {

const Value& at(const Value& table, std::string_view key) {
  const KeyValue* member = find(*table.table(), key);
  REQUIRE(member);
  return member->value;
}

std::string key_place(const Value& table, std::string_view key) { return find(*table.table(), key)->at.text(); }

TEST_CASE("keys and values know their place") {
  const Value root = parse(
      "top = 1\n"
      "\n"
      "[data]  # comment\n"
      "  batch =   16\n"
      "mean = [0.5,\n"
      "  2]\n"
      "[optimizer]\n"
      "lr.x = true\n"
      "[[optimizer.groups]]\n"
      "match = [\"é*\"]\n"
      "[[optimizer.groups]]\n"
      "\tlr = 1.5\n",
      "job.toml");
  CHECK(key_place(root, "top") == "job.toml:1:1");
  CHECK(key_place(root, "data") == "job.toml:3:2");
  CHECK(key_place(at(root, "data"), "batch") == "job.toml:4:3");
  CHECK(at(at(root, "data"), "batch").at.text() == "job.toml:4:13");
  const Array& mean = *at(at(root, "data"), "mean").array();
  CHECK(mean[0].at.text() == "job.toml:5:9");
  CHECK(mean[1].at.text() == "job.toml:6:3");
  CHECK(at(at(root, "optimizer"), "lr").table() != nullptr);
  CHECK(key_place(at(at(root, "optimizer"), "lr"), "x") == "job.toml:8:4");
  const Array& groups = *at(at(root, "optimizer"), "groups").array();
  REQUIRE(groups.size() == 2);
  CHECK(*at(groups[0], "match").array()->at(0).string() == "é*");
  CHECK(key_place(groups[1], "lr") == "job.toml:12:2");
}

TEST_CASE("kinds of values") {
  const Value root = parse("s = \"x\"\ni = 3\nr = 0.5\nb = false\nd = 2020-01-01\na = []\nt = {}\n", "x");
  CHECK(*at(root, "s").string() == "x");
  CHECK(*at(root, "i").integer() == 3);
  CHECK(*at(root, "i").number() == 3.0);
  CHECK(*at(root, "r").number() == 0.5);
  CHECK(at(root, "r").integer() == nullptr);
  CHECK_FALSE(at(root, "s").number());
  CHECK(*at(root, "b").boolean() == false);
  CHECK(at(root, "s").describe() == "the string \"x\"");
  CHECK(at(root, "i").describe() == "the integer 3");
  CHECK(at(root, "r").describe() == "the number 0.5");
  CHECK(at(root, "b").describe() == "the boolean false");
  CHECK(at(root, "d").describe() == "a date or time");
  CHECK(at(root, "a").describe() == "an array");
  CHECK(at(root, "t").describe() == "a table");
  CHECK(find(*root.table(), "none") == nullptr);
  CHECK(root.table()->front().key == "s");  // the order of the text, not of the alphabet
}

TEST_CASE("text that is not TOML is refused with its place") {
  const auto message = [](std::string_view text) {
    const Error error = error_of([&] { parse(text, "job.toml"); });
    CHECK(error.fault() == Fault::spec);
    return error.message();
  };
  CHECK(message("[data]\nbatch = 1\nbatch = 2\n").rfind("job.toml:3:", 0) == 0);
  CHECK(message("[data\n").rfind("job.toml:1:", 0) == 0);
  CHECK(message("a = 1\nb = adam\n").rfind("job.toml:2:5: not valid TOML: ", 0) == 0);
  CHECK(message("a = 99999999999999999999\n").rfind("job.toml:1:", 0) == 0);
  CHECK(message("a = \"\xff\"\n").rfind("job.toml:1:", 0) == 0);
  CHECK(message("[=a]\n").rfind("job.toml:1:2: ", 0) == 0);
  CHECK(message("clé = 1\n").rfind("job.toml:1:3: ", 0) == 0);
  CHECK(message("a = é\n").rfind("job.toml:1:5: ", 0) == 0);
  CHECK(message("a = ,\n").rfind("job.toml:1:5: ", 0) == 0);
}

TEST_CASE("overrides replace, add and know where they came from") {
  Value root = parse("[data]\nbatch = 8\n", "job.toml");
  apply_override(root, "data.batch=16");
  apply_override(root, "optimizer.name=adam");
  apply_override(root, "data.path=/a b/c=d");
  apply_override(root, "data.mean=[0.5, 1]");
  apply_override(root, "optimizer.groups=[{ match = [\"*bias\"] }]");
  apply_override(root, "job.name=");
  apply_override(root, "model.name=two\nlines");
  apply_override(root, "job.note=1\nother = 2");
  CHECK(*at(at(root, "data"), "batch").integer() == 16);
  CHECK(at(at(root, "data"), "batch").at.text() == "--set data.batch=16");
  CHECK(key_place(at(root, "data"), "batch") == "--set data.batch=16");
  CHECK(key_place(root, "data") == "job.toml:1:2");
  CHECK(*at(at(root, "optimizer"), "name").string() == "adam");
  CHECK(*at(at(root, "data"), "path").string() == "/a b/c=d");
  CHECK(*at(at(root, "data"), "mean").array()->at(0).number() == 0.5);
  CHECK_FALSE(at(at(root, "data"), "mean").array()->at(0).at.in_file());
  const Value& group = at(at(root, "optimizer"), "groups").array()->at(0);
  CHECK(key_place(group, "match") == "--set optimizer.groups=[{ match = [\"*bias\"] }]");
  CHECK(*at(at(root, "job"), "name").string() == "");
  CHECK(*at(at(root, "model"), "name").string() == "two\nlines");
  CHECK(*at(at(root, "job"), "note").string() == "1\nother = 2");
}

TEST_CASE("overrides that cannot be") {
  Value root = parse("[data]\nbatch = 8\n", "job.toml");
  for (const char* argument : {"data.batch", "=3", "data.=3", ".batch=3", "data..batch=3", "", "job.name=\xff"}) {
    CAPTURE(argument);
    CHECK(error_of([&] { apply_override(root, argument); }).fault() == Fault::usage);
  }
  const Error error = error_of([&] { apply_override(root, "data.batch.x=3"); });
  CHECK(error.fault() == Fault::spec);
  CHECK(error.message() == "--set data.batch.x=3: \"data.batch\" is the integer 8, not a table");
}

TEST_CASE("literals read back with the same bits") {
  const auto read = [](const std::string& text) { return at(parse("v = " + text, "x"), "v"); };
  std::mt19937_64 random(7);
  const auto same = [&](double number) {
    const Value value = read(literal(number));
    REQUIRE(std::holds_alternative<double>(value.data));
    const double back = *value.number();
    CAPTURE(number);
    CHECK(std::memcmp(&back, &number, sizeof number) == 0);
  };
  for (const double number : {0.0, -0.0, 1.0, 0.1, 1.0 / 3, 1e-8, 1e300, -2.5, 4e-320, 123456789012345678.0})
    same(number);
  same(std::numeric_limits<double>::infinity());
  same(std::numeric_limits<double>::max());
  same(std::numeric_limits<double>::denorm_min());
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bits = random();
    double number;
    std::memcpy(&number, &bits, sizeof number);
    if (std::isfinite(number)) same(number);
  }
  CHECK(literal(1.0) == "1.0");
  CHECK(literal(0.1) == "0.1");
  for (const int64_t number : {int64_t{0}, int64_t{-5}, INT64_MAX, INT64_MIN})
    CHECK(*read(literal(number)).integer() == number);
  CHECK(*read(literal(true)).boolean());
  for (std::string text : {"", "a\"b\\c", "tab\there\nline\r\f\b", "\x01\x1f\x7f", "é☃"}) {
    CHECK(*read(literal(text)).string() == text);
  }
}

}  // namespace
}  // namespace estrain::toml
