#include <doctest/doctest.h>

#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain {
namespace {

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_CASE("what is nested too deep is not parsed, however it ends") {
  CHECK(parse_json(nested(kDeepestJson), "here").is_array());
  for (const std::string& text :
       {nested(kDeepestJson + 1), nested(100'000), std::string(1'000'000, '['), R"({"a":)" + nested(100'000) + "}"}) {
    const Error error = error_of([&] { parse_json(text, "here"); });
    CHECK(error.fault() == Fault::corrupt);
    CHECK(error.message() == "here: not valid JSON: nested more than 64 deep");
    CHECK(parse_json_if_sound(text).is_discarded());
  }
  CHECK(
      parse_json_if_sound(R"(["[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\""])")
          .is_array());
  CHECK(parse_json_if_sound("no JSON").is_discarded());
}

TEST_CASE("a line that is nested too deep is passed over, as any damaged one") {
  const ScratchFolder folder;
  const std::string path = folder.write("log", "{\"n\":1}\n{\"n\":" + nested(100'000) + "}\n[1]\n{\"n\":2}\n");
  std::vector<int64_t> numbers;
  for_each_object(path, [&](const Json& object) { numbers.push_back(whole_in(object, "n").value_or(-1)); });
  CHECK(numbers == std::vector<int64_t>{1, 2});
}

TEST_CASE("a field is of the type that is asked for, or absent") {
  const Json object = parse_json(
      R"({"text":"a","whole":3,"real":3.5,"huge":18446744073709551615,"list":[1],"object":{"a":1},"null":null,"flag":true})",
      "test");
  const std::vector<std::string> keys = {"text", "whole", "real", "huge", "list", "object", "null", "flag", "none"};
  std::string texts, wholes, numbers, lists, objects;
  for (const std::string& key : keys) {
    if (text_in(object, key)) texts += key + " ";
    if (whole_in(object, key)) wholes += key + " ";
    if (number_in(object, key)) numbers += key + " ";
    if (!list_in(object, key).empty()) lists += key + " ";
    if (!object_in(object, key).empty()) objects += key + " ";
  }
  CHECK(texts == "text ");
  CHECK(wholes == "whole ");
  CHECK(numbers == "whole real huge ");
  CHECK(lists == "list ");
  CHECK(objects == "object ");
  for (const char* text : {"[1]", "5", "null", "\"text\""}) {
    CHECK_FALSE(text_in(parse_json(text, "test"), "text").has_value());
    CHECK(list_in(parse_json(text, "test"), "text").empty());
  }
  CHECK_FALSE(whole_in(Json(Json::value_t::discarded), "whole").has_value());
}

}  // namespace
}  // namespace estrain
