#include "core/planning/simulate/tables/csv_table.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

namespace estrain::simulate {
namespace {

TEST_CASE("fields, quotes and line ends") {
  const CsvTable table = CsvTable::parse("a,b\r\n1,\"x,\"\"y\"\"\"\n\n2.5,z", "t.csv");
  CHECK(table.rows() == 2);
  CHECK(table.text(0, 1) == "x,\"y\"");
  CHECK(table.number(1, 0) == 2.5);
  CHECK(table.whole(0, table.column("a"), 0) == 1);
  CHECK(table.has("b"));
  CHECK(!table.has("c"));
}

TEST_CASE("what is wrong is named with its place") {
  const CsvTable table = CsvTable::parse("time_s,n\n1,2\n-3,x\nnan,1.5\n", "t.csv");
  const auto message = [](auto&& body) {
    const Error error = error_of(body);
    CHECK(error.fault() == Fault::spec);
    return error.message();
  };
  CHECK(message([&] { table.column("time"); }) == "t.csv: no column \"time\"; the columns are time_s, n");
  CHECK(message([&] { table.number_from(1, 0, 0); }) == "t.csv:3: column time_s: -3 is below 0");
  CHECK(message([&] { table.number(1, 1); }) == "t.csv:3: column n: \"x\" is not a number");
  CHECK(message([&] { table.number(2, 0); }) == "t.csv:4: column time_s: \"nan\" is not a number");
  CHECK(message([&] { table.whole(2, 1, 0); }) == "t.csv:4: column n: 1.5 is not a whole number");
  CHECK(message([&] { table.whole(0, 1, 3); }).find("is not from 3 to") != std::string::npos);
  CHECK(message([&] { CsvTable::parse("a,b\n1\n", "t.csv"); }) ==
        "t.csv:2: 1 fields, but the first line names 2 columns");
  CHECK(message([&] { CsvTable::parse("a,b\n1,\"2\n", "t.csv"); }) == "t.csv:2: a quotation mark is not closed");
  CHECK(message([&] { CsvTable::parse("", "t.csv"); }) == "t.csv: the file is empty");
}

}  // namespace
}  // namespace estrain::simulate
