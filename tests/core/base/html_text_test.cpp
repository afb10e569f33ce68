#include <doctest/doctest.h>

#include "core/base/visible_text.h"

namespace estrain {
namespace {

TEST_CASE("nothing of a text acts as markup") {
  CHECK(html_escaped("<script>alert('x')</script> & \"more\"") ==
        "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;more&quot;");
}

TEST_CASE("what is no text becomes a sign that says so") {
  const std::string unknown = "\xEF\xBF\xBD";
  CHECK(html_escaped(std::string("a\0b", 3)) == "a" + unknown + "b");
  CHECK(html_escaped("a\x1B[31mb") == "a" + unknown + "[31mb");
  CHECK(html_escaped("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80") == "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  CHECK(html_escaped("\xC3") == unknown);                // cut off
  CHECK(html_escaped("\xC3<") == unknown + "&lt;");      // and does not swallow the next character
  CHECK(html_escaped("\xC0\xBC") == unknown + unknown);  // a "<" in two bytes
  CHECK(html_escaped("\xE2\x80\xAE"
                     "gnp.exe") == unknown + "gnp.exe");  // would be shown backwards
}

}  // namespace
}  // namespace estrain
