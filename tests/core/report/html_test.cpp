#include "core/report/html.h"

#include <doctest/doctest.h>

#include <limits>

namespace estrain::report {
namespace {

TEST_CASE("nothing of a text acts as markup") {
  CHECK(escaped("<script>alert('x')</script> & \"more\"") ==
        "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;more&quot;");
}

TEST_CASE("what is no text becomes a sign that says so") {
  const std::string unknown = "\xEF\xBF\xBD";
  CHECK(escaped(std::string("a\0b", 3)) == "a" + unknown + "b");
  CHECK(escaped("a\x1B[31mb") == "a" + unknown + "[31mb");
  CHECK(escaped("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80") == "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  CHECK(escaped("\xC3") == unknown);                // cut off
  CHECK(escaped("\xC3<") == unknown + "&lt;");      // and does not take what is behind it along
  CHECK(escaped("\xC0\xBC") == unknown + unknown);  // a "<" in two bytes
  CHECK(escaped("\xE2\x80\xAE"
                "gnp.exe") == unknown + "gnp.exe");  // would be shown backwards
}

TEST_CASE("numbers and durations are short") {
  CHECK(short_number(0.029148) == "0.02915");
  CHECK(short_number(std::numeric_limits<double>::quiet_NaN()) == "NaN");
  CHECK(short_number(-std::numeric_limits<double>::infinity()) == "-infinity");
  CHECK(duration(0.42) == "0.42 s");
  CHECK(duration(45) == "45 s");
  CHECK(duration(45.25) == "45.2 s");
  CHECK(duration(185) == "3 min 05 s");
  CHECK(duration(7800) == "2 h 10 min");
  CHECK(duration(4 * 86400 + 3 * 3600) == "4 d 03 h");
  CHECK(duration(std::numeric_limits<double>::quiet_NaN()) == "-");
}

}  // namespace
}  // namespace estrain::report
