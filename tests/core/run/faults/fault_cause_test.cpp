#include "core/run/faults/fault_cause.h"

#include <doctest/doctest.h>

#include <ctime>

#include "tests/error_of.h"

namespace estrain::faults {
namespace {

std::string found(const std::string& pattern, const std::string& lines) {
  return LinePattern(pattern).first_line_in(lines).value_or("-");
}

TEST_CASE("the first line that a pattern is found in") {
  CHECK(found("b+", "a\n bb \nbbb\n") == "bb");
  CHECK(found("b", "b") == "b");
  CHECK(found("c$", "ab\nbc\r\nxc") == "xc");
  CHECK(found("^b", "ab\nbc") == "bc");
  CHECK(found("^a", "ab\nbc") == "ab");
  CHECK(found("z", "ab\nbc") == "-");
  CHECK(found("z", "") == "-");
}

TEST_CASE("case does not matter, and a match lies within one line") {
  CHECK(found("out of MEMORY", "Out of Memory: x") == "Out of Memory: x");
  CHECK(found("a.*b", "a\nb") == "-");
  CHECK(found("a[^x]b", "a\nb") == "-");
  CHECK(found("\\bnan\\b", "banana\nis nan.") == "is nan.");
}

TEST_CASE("patterns that are none, or fit everything, are refused") {
  for (const char* wrong : {"(", "[a", "a{2,1}", "*(", "(a)\\1", "x*", "", "^", "a|"}) {
    CAPTURE(wrong);
    CHECK(error_of([&] { LinePattern pattern(wrong); }).fault() == Fault::spec);
  }
  CHECK(found("\\\\1", "a\\1") == "a\\1");  // a backslash and a digit, no back-reference
}

TEST_CASE("a clumsy pattern on a long line comes to an end") {
  const std::clock_t begin = std::clock();  // CPU time, independent of other programs
  CHECK(found("(a+)+(b|c)$", std::string(2000, 'a')) == "-");
  CHECK(std::clock() - begin < 5 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace estrain::faults
