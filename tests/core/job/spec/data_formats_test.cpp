#include "core/job/spec/data_formats.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/job/spec/enum_names.h"
#include "core/job/spec/keys/keys.h"
#include "core/job/spec/starter.h"

namespace estrain::spec {

TEST_CASE("the rows of the data formats are the values of data.format, each once") {
  const auto names = data_formats_with([](const DataFormatTraits&) { return true; });
  CHECK(find_key("data.format")->rule.choices == names);
  for (const DataFormatTraits& row : data_formats()) {
    CAPTURE(row.name);
    CHECK(std::ranges::count(names, row.name) == 1);
    CHECK(traits_of(row.format).name == row.name);
    CHECK(from_string<DataFormat>(row.name) == row.format);
  }
  CHECK_THROWS_AS(traits_of(static_cast<DataFormat>(99)), Error);
}

TEST_CASE("every data format has a spec to start from") {
  for (const DataFormatTraits& row : data_formats()) {
    CAPTURE(row.name);
    DataSection data;
    data.format = row.format;
    (row.is_code ? data.file : data.path) = "/data";
    const std::string text = starter_spec({"job", data});
    const std::string key = row.is_code ? "file" : "path";
    CHECK(text.find("format = \"" + std::string(row.name) + "\"\n" + key + " = \"/data\"\n") != text.npos);
    CHECK(text.find("[model]\nname = \"") != text.npos);
  }
}

}  // namespace estrain::spec
