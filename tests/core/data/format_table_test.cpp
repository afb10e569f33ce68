#include "core/data/format_table.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/job/spec/data_formats.h"

namespace estrain::data {

TEST_CASE("every data format of the spec has one row in the table of formats that are read") {
  for (const spec::DataFormatTraits& format : spec::data_formats()) {
    CAPTURE(format.name);
    CHECK(std::ranges::count(format_table(), format.format, &FormatRow::name) == 1);
  }
  CHECK(format_table().size() == spec::data_formats().size());
}

TEST_CASE("every data format names its files, unless its samples are made") {
  for (const spec::DataFormatTraits& format : spec::data_formats()) {
    CAPTURE(format.name);
    spec::DataSection section;
    section.format = format.format;
    if (format.is_made) {
      CHECK(format_of(section).file_names(section).empty());
    } else {
      const char* key = format.is_code ? "data.file" : "data.path";
      CHECK_THROWS_WITH_AS(format_of(section).file_names(section), doctest::Contains(key), Error);
    }
  }
}

}  // namespace estrain::data
