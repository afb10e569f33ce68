#include "core/base/files/long_files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "core/base/json/json_lines.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain {
namespace {

std::vector<std::string> forward(const std::string& path) {
  std::vector<std::string> lines;
  LineReader reader(path);
  for (std::string_view line; reader.next(&line);) lines.emplace_back(line);
  return lines;
}

std::vector<std::string> backward(const std::string& path) {
  const std::string whole = bytes_of(path);
  std::vector<std::string> lines;
  BackwardLineReader reader(path);
  for (std::string_view line; reader.next(&line);) {
    CHECK(whole.substr(reader.begin(), reader.end() - reader.begin()) == std::string(line) + "\n");
    lines.emplace_back(line);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

TEST_CASE("whole lines are read from either end; what is behind the last line feed does not count") {
  const ScratchFolder folder;
  const std::string file = folder / "file";
  const auto check = [&](const std::string& content, const std::vector<std::string>& lines) {
    replace_bytes(file, content);
    CHECK(forward(file) == lines);
    CHECK(backward(file) == lines);
  };
  check("", {});
  check("torn", {});
  check("\n", {""});
  check("a\n\nbc\n", {"a", "", "bc"});
  check("a\nbc\ntorn", {"a", "bc"});
  check(std::string("a\0b\n", 4), {std::string("a\0b", 3)});
}

TEST_CASE("lines longer than a block, and blocks of many lines") {
  const ScratchFolder folder;
  std::vector<std::string> lines;
  std::string content;
  for (size_t i = 0; i < 4000; ++i) {
    const size_t size = i % 1000 == 500 ? 900'000 + i : i * 7 % 300;
    lines.emplace_back(size, static_cast<char>('a' + i % 26));
    content += lines.back() + "\n";
  }
  replace_bytes(folder / "file", content + std::string(600'000, 'x'));
  CHECK(forward(folder / "file") == lines);
  CHECK(backward(folder / "file") == lines);
}

TEST_CASE("a file that is not there has no lines; one that cannot be read is an error") {
  const ScratchFolder folder;
  CHECK(forward(folder / "none").empty());
  CHECK(backward(folder / "none").empty());
  CHECK(last_bytes(folder / "none", 10).empty());
  CHECK(error_of([&] { forward(folder.path()); }).fault() == Fault::io);
  CHECK(error_of([&] { BackwardLineReader(folder.path() + "/"); }).fault() == Fault::io);
}

TEST_CASE("the last bytes of a file, or all that it has") {
  const ScratchFolder folder;
  replace_bytes(folder / "file", "0123456789");
  CHECK(last_bytes(folder / "file", 4) == "6789");
  CHECK(last_bytes(folder / "file", 10) == "0123456789");
  CHECK(last_bytes(folder / "file", 11) == "0123456789");
  CHECK(last_bytes(folder / "file", 0).empty());
}

TEST_CASE("what lies before a mark does not count, unless the file has become shorter than that") {
  const ScratchFolder folder;
  replace_bytes(folder / "file", "0123456789");
  CHECK(last_bytes(folder / "file", 4, 3) == "6789");
  CHECK(last_bytes(folder / "file", 4, 8) == "89");
  CHECK(last_bytes(folder / "file", 4, 10).empty());
  CHECK(last_bytes(folder / "file", 4, 11) == "6789");
  CHECK(size_of_file(folder / "file") == 10);
  CHECK(size_of_file(folder / "none") == 0);
}

TEST_CASE("objects of a file of JSON lines; what is none is passed over") {
  const ScratchFolder folder;
  replace_bytes(folder / "file", "{\"a\":1}\nnonsense\n[1]\n{\"a\":2}\n{\"a\":3}");
  std::vector<int> found;
  for_each_object(folder / "file", [&](const Json& object) { found.push_back(object.at("a")); });
  CHECK(found == std::vector<int>{1, 2});
  for_each_object(folder / "none", [&](const Json&) { found.clear(); });
  CHECK(found.size() == 2);
}

// No real line is so long; the test does not specify what is kept of one.
TEST_CASE("a line without end takes no more memory than the longest line, and the lines around it are read") {
  const ScratchFolder folder;
  const std::string file = folder.write("file", "first\n");
  std::filesystem::resize_file(file, 3 * kLongestLine);
  std::ofstream(file, std::ios::binary | std::ios::app) << "end\nlast\nmore";
  LineReader reader(file);
  std::string_view line;
  CHECK((reader.next(&line) && line == "first"));
  CHECK((reader.next(&line) && line.size() <= 2 * kLongestLine + 300'000));
  CHECK((reader.next(&line) && line == "last"));
  CHECK(reader.end() == 3 * kLongestLine + 9);
  CHECK_FALSE(reader.next(&line));
  BackwardLineReader back(file);
  CHECK((back.next(&line) && line == "last"));
  CHECK((back.next(&line) && line.size() <= 2 * kLongestLine + 300'000));
  CHECK(back.end() == 3 * kLongestLine + 4);
  CHECK((back.next(&line) && line == "first"));
  CHECK_FALSE(back.next(&line));
}

TEST_CASE("reading goes on where it ended") {
  const ScratchFolder folder;
  const std::string file = folder.write("file", "one\ntwo\nthr");
  LineReader reader(file);
  std::string_view line;
  while (reader.next(&line)) {
  }
  CHECK(reader.end() == 8);
  folder.write("file", "one\ntwo\nthree\n");
  LineReader on(file, reader.end());
  CHECK((on.next(&line) && line == "three"));
  CHECK(on.end() == 14);
  CHECK_FALSE(on.next(&line));
}

}  // namespace
}  // namespace estrain
