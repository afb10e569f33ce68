#include "core/base/visible_text.h"

#include <doctest/doctest.h>

#include "core/base/json/json_text.h"

namespace estrain {
namespace {

const std::string kUnknown = "\xEF\xBF\xBD";

TEST_CASE("what a terminal would act on is shown as a sign") {
  CHECK(visible("a\x1B[31mb\x1B]0;title\x07") == "a" + kUnknown + "[31mb" + kUnknown + "]0;title" + kUnknown);
  CHECK(visible("a\rb\bc\x7F") == "a" + kUnknown + "b" + kUnknown + "c" + kUnknown);
  CHECK(visible("\xC2\x9B"
                "31m") == kUnknown + "31m");  // CSI in one character
  CHECK(visible("\x9B"
                "31m") == kUnknown + "31m");                      // the same outside UTF-8
  CHECK(visible("\xE2\x80\xAEgnp.exe") == kUnknown + "gnp.exe");  // would be shown backwards
  CHECK(visible(std::string("a\0b", 3)) == "a" + kUnknown + "b");
}

TEST_CASE("text of all languages is shown as it is, and lines stay lines") {
  const std::string text = "Zo\xC3\xAB \xE6\x9D\x8E \xF0\x9F\x98\x80\n\t" + kUnknown;
  CHECK(visible(text) == text);
  CHECK(visible_in_line("a\nb\tc") == "a b c");
  CHECK(visible_in_line("Zo\xC3\xAB\x1B[2J") == "Zo\xC3\xAB" + kUnknown + "[2J");
}

TEST_CASE("JSON has nothing that a terminal acts on, and whoever parses it has all of it") {
  for (const std::string text : {"a\x1B[31m\n\"b\"",
                                 "\xC2\x9B"
                                 "31m\x7F",
                                 "\xE2\x80\xAEgnp.exe", "Zo\xC3\xAB \xE6\x9D\x8E \xF0\x9F\x98\x80"}) {
    CAPTURE(text);
    const std::string json = json_text({{text, {text}}});
    CHECK(visible(json) == json);
    CHECK(Json::parse(json) == Json{{text, {text}}});
  }
  CHECK(json_text("Zo\xC3\xAB") == "\"Zo\xC3\xAB\"");
  CHECK(json_text("\x7F") == "\"\\u007f\"");
}

TEST_CASE("nothing of a text acts as markup") {
  CHECK(html_escaped("<script>alert('x')</script> & \"more\"") ==
        "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;more&quot;");
}

TEST_CASE("UTF-8 has neither overlong forms nor surrogates nor codes above the last character") {
  for (const char* text : {"", "plain\n", "é☃", "\xEF\xBF\xBD", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF", "\xC2\x80"})
    CHECK(is_utf8(text));
  for (const char* text : {"\xFF", "\xC3", "\xE2\x98", "a\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                           "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"})
    CHECK_FALSE(is_utf8(text));
}

TEST_CASE("what is no text becomes a sign that says so") {
  CHECK(html_escaped(std::string("a\0b", 3)) == "a" + kUnknown + "b");
  CHECK(html_escaped("a\x1B[31mb") == "a" + kUnknown + "[31mb");
  CHECK(html_escaped("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80") == "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  CHECK(html_escaped("\xC3") == kUnknown);                 // cut off
  CHECK(html_escaped("\xC3<") == kUnknown + "&lt;");       // and does not swallow the next character
  CHECK(html_escaped("\xC0\xBC") == kUnknown + kUnknown);  // a "<" in two bytes
  CHECK(html_escaped("\xE2\x80\xAE"
                     "gnp.exe") == kUnknown + "gnp.exe");  // would be shown backwards
}

}  // namespace
}  // namespace estrain
