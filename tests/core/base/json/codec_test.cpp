#include "core/base/json/codec.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/json/fields.h"

namespace estrain::codec {
namespace {

struct Part {
  std::string text;
  ESTRAIN_FIELDS(text)
};

struct All {
  static constexpr std::string_view name = "all";
  bool yes = false;
  int64_t whole = 0;
  double number = 0;
  Step step;
  std::optional<double> maybe;
  std::vector<Part> parts;
  EstRange range;
  std::map<std::pair<std::string, int64_t>, Part> map;
  ESTRAIN_FIELDS(yes, whole, number, step, maybe, parts, range, map)
};

struct Nothing {
  static constexpr std::string_view name = "nothing";
  template <typename Self, typename Visit>
  static void fields(Self&, Visit&&) {}
};

using Message = std::variant<Nothing, All>;

const All kAll{true, -3, 0.5, Step(7), 2.0, {{"a"}, {"b"}}, {VirtualRank(1), VirtualRank(4)}, {{{"x", 2}, {"c"}}}};

TEST_CASE("a message comes back as it went, every kind of field of it") {
  const Json json = encode(Message(kAll));
  CHECK(json.dump() == R"({"is":"all","yes":true,"whole":-3,"number":0.5,"step":7,"maybe":2.0,)"
                       R"("parts":[{"text":"a"},{"text":"b"}],"range":[1,4],"map":[[["x",2],{"text":"c"}]]})");
  const All back = std::get<All>(decode<Message>(json));
  CHECK(back.yes);
  CHECK(back.whole == -3);
  CHECK(back.number == 0.5);
  CHECK(back.step == Step(7));
  CHECK(back.maybe == 2.0);
  REQUIRE(back.parts.size() == 2);
  CHECK(back.parts[1].text == "b");
  CHECK(back.range == kAll.range);
  REQUIRE(back.map.size() == 1);
  CHECK(back.map.at({"x", 2}).text == "c");
}

struct Times {
  MonotonicTime arrived{};
  Nanoseconds took_{};
  std::optional<MonotonicTime> ends;
  Seconds step_seconds{}, within{};
  ESTRAIN_FIELDS(arrived, took_, ends, step_seconds, within)
};

TEST_CASE("times are numbers in JSON: whole nanoseconds by keys that say so, or seconds to the last digit") {
  const Times times{monotonic_time(INT64_MAX), Nanoseconds(-3), monotonic_time(5), Seconds(0.1), Seconds(2)};
  const Json json = fields_of(times);
  CHECK(json.dump() ==
        R"({"arrived_ns":9223372036854775807,"took_ns":-3,"ends_ns":5,"step_seconds":0.1,"within":2.0})");
  Times back;
  from_field(json, back);
  CHECK(back.arrived == times.arrived);
  CHECK(back.took_ == times.took_);
  CHECK(back.ends == times.ends);
  CHECK(back.step_seconds == times.step_seconds);
  from_field(Json{{"within", 3}}, back);  // a whole number of seconds
  CHECK(back.within == Seconds(3));
  CHECK_FALSE(fields_of(Times{}).contains("ends_ns"));
  CHECK_THROWS_AS(from_field(Json{{"arrived_ns", 1.5}}, back), Error);
  CHECK_THROWS_AS(from_field(Json{{"within", "3"}}, back), Error);
}

TEST_CASE("fields that are missing keep their defaults, an empty optional is left out, more keys do no harm") {
  CHECK_FALSE(encode(Message(All{})).contains("maybe"));
  const All back = std::get<All>(decode<Message>({{"is", "all"}, {"maybe", nullptr}, {"whole", 2}, {"new", 1}}));
  CHECK(back.whole == 2);
  CHECK_FALSE(back.maybe.has_value());
  CHECK(back.parts.empty());
}

struct AllOfIt {
  int64_t number = 0;
  std::optional<double> maybe;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(number, maybe)
};

TEST_CASE("a struct that must be complete is refused without one of its fields, but for the optional ones") {
  AllOfIt read;
  from_field(Json{{"number", 3}}, read);
  CHECK(read.number == 3);
  CHECK_THROWS_WITH_AS(from_field(Json{{"maybe", 1.0}}, read), doctest::Contains("\"number\" is missing"), Error);
}

TEST_CASE("what is no message of the kind that is expected is refused") {
  const Json wrong[] = {Json(),
                        Json::array(),
                        {{"is", "other"}},
                        {{"is", 3}},
                        {{"whole", 1}},
                        {{"is", "all"}, {"yes", 1}},
                        {{"is", "all"}, {"whole", 0.5}},
                        {{"is", "all"}, {"number", "1"}},
                        {{"is", "all"}, {"step", "1"}},
                        {{"is", "all"}, {"parts", {1}}},
                        {{"is", "all"}, {"parts", {{{"text", 1}}}}},
                        {{"is", "all"}, {"range", {1}}},
                        {{"is", "all"}, {"map", 1}},
                        {{"is", "all"}, {"map", {1}}},
                        {{"is", "all"}, {"map", {{{1}, {{"text", "c"}}}}}}};
  for (const Json& json : wrong) {
    CAPTURE(json.dump());
    CHECK_THROWS_AS(decode<Message>(json), Error);
  }
}

}  // namespace
}  // namespace estrain::codec
