#include <doctest/doctest.h>

#include "core/formats/toml/parse.h"
#include "tests/error_of.h"

namespace estrain::toml {
namespace {

std::string key_of(size_t parts) {
  std::string key = "a";
  for (size_t i = 1; i < parts; ++i) key += ".a";
  return key;
}

std::string repeated(size_t times, const std::string& text) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

void check_refused(const std::string& text) {
  CAPTURE(text.substr(0, 60));
  const Error error = error_of([&] { parse(text, "job.toml"); });
  CHECK(error.fault() == Fault::spec);
  CHECK(error.message().find("not valid TOML: a key of more than 16 parts, or values nested more than 16 deep") !=
        std::string::npos);
}

TEST_CASE("keys and values of any depth end in an error") {
  for (const size_t depth : {size_t{17}, size_t{300}, size_t{60'000}}) {
    check_refused(key_of(depth) + " = 1\n");
    check_refused("[" + key_of(depth) + "]\n");
    check_refused("[[" + key_of(depth) + "]]\n");
    check_refused("a = " + repeated(depth, "[") + repeated(depth, "]") + "\n");
    check_refused("a = " + repeated(depth, "{ a = ") + "1" + repeated(depth, "}") + "\n");
    check_refused("a = { " + key_of(depth) + " = 1 }\n");
    check_refused(repeated(depth, "'a' . \"a.b\" . ") + "a = 1\n");
    check_refused("a = 1 # 'comment\n" + key_of(depth) + " = 1\n");
  }
}

// A string's content is no key; what follows the string is.
TEST_CASE("strings of every kind end where the parser sees their end") {
  const std::string deep = key_of(300), tail = ", b = { " + deep + " = 1 } }\n";
  for (const char* text : {R"("")", R"("'")", R"("\"")", R"("\\")", R"('"')", R"('\')", R"("""""")", R"("""""""")",
                           R"("""a"b""c""")", R"("""a\"""b""")", R"("""a""""")", "''''''", "'''''''", "'''a'b''c'''",
                           "'''\\'''", "\"\"\"\\\n\"\"\"", "'''\n'\n'''"}) {
    CAPTURE(text);
    CHECK_FALSE(too_deep("a = { c = " + std::string(text) + " }\n").has_value());
    check_refused("a = { c = " + std::string(text) + tail);
  }
  for (const std::string& held : {"\"" + deep + "\"", "'" + deep + "'", "\"\"\"\n" + deep + "\"\"\"",
                                  "'''\n" + deep + "'''", "\"\\\" " + deep + "\""}) {
    CAPTURE(held.substr(0, 10));
    CHECK_NOTHROW(parse("a = " + held + "\n", "job.toml"));
  }
  CHECK_NOTHROW(parse("a = 1 # " + deep + repeated(300, "[") + "\n", "job.toml"));
}

TEST_CASE("what a spec needs is not deep, and the place of what is too deep is told") {
  CHECK_NOTHROW(parse(key_of(kMostKeyParts) + " = 1\n", "job.toml"));
  CHECK_NOTHROW(parse("a = " + repeated(kDeepestNesting, "[") + repeated(kDeepestNesting, "]"), "job.toml"));
  CHECK_NOTHROW(parse("a = [" + repeated(1000, "1.5, [2.5], ") + "3]\n", "job.toml"));
  CHECK(
      error_of([&] { parse("x = 1\n" + key_of(20) + " = 1\n", "job.toml"); }).message().starts_with("job.toml:2:32: "));
}

TEST_CASE("an argument of any depth is refused") {
  for (const std::string& argument :
       {key_of(17) + "=1", key_of(30'000) + "=1", "a=" + repeated(20'000, "[") + repeated(20'000, "]"),
        "a={" + key_of(20'000) + "=1}"}) {
    Value document{Table{}, {}};
    CHECK(error_of([&] { apply_override(document, argument); }).fault() == Fault::spec);
  }
}

}  // namespace
}  // namespace estrain::toml
