#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/json/json.h"
#include "core/data/format_table.h"
#include "core/run/launch/preflight/resumed.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::launch {
namespace {

spec::DataSection text_section(const std::string& path) {
  spec::DataSection section;
  section.format = spec::DataFormat::text;
  section.path = path;
  return section;
}

TEST_CASE("what has changed since a checkpoint, and its line in the change log") {
  const ScratchFolder folder;
  const spec::DataSection section = text_section(folder.write("a.txt", "some text"));
  const std::string known = data::identify(data::open_files(data::file_names(section))).to_json();
  CHECK(changes_since(known, section).empty());
  CHECK(changes_since(known, text_section(folder.write("b.txt", "some text"))).empty());
  folder.write("a.txt", "some other text");
  const std::vector<data::DataChange> changes = changes_since(known, section);
  REQUIRE(changes.size() == 1);
  const std::string lines = change_log_lines(changes, Step(7));
  REQUIRE(lines.ends_with("\n"));
  const Json line = parse_json(lines, "line");
  CHECK(line.at("change") == "data");
  CHECK(line.at("step") == 7);
  CHECK(line.at("path") == folder / "a.txt");
  CHECK(line.at("was").at("size") == 9);
  CHECK(line.at("is").at("size") == 15);
  CHECK(line.at("words") == folder / "a.txt" + ": 15 bytes, were 9");
  std::filesystem::remove(folder / "a.txt");
  const Error error = error_of([&] { changes_since(known, section); });
  CHECK(error.fault() == Fault::io);
  CHECK(error.message().find("data: cannot open " + folder / "a.txt") == 0);
}

}  // namespace
}  // namespace estrain::launch
