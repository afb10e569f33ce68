#include "core/formats/archive/tar.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/error_of.h"
#include "tests/written_images.h"

namespace estrain::archive {
namespace {

using testing::tar_bytes;
using testing::tar_member;

struct Found {
  std::string name, content;

  bool operator==(const Found&) const = default;
};

std::vector<Found> members(const std::string& archive) {
  std::vector<Found> found;
  each_member(std::as_bytes(std::span(archive)), [&](const TarMember& member) {
    found.push_back({std::string(member.name), archive.substr(member.offset, member.size)});
  });
  return found;
}

std::string refusal(const std::string& archive) {
  const Error error = error_of([&] { members(archive); });
  CHECK(error.fault() == Fault::corrupt);
  return error.message();
}

TEST_CASE("files are found with their bytes; folders and links are passed over") {
  const std::string archive = tar_bytes({{"a/1.jpg", std::string(700, 'x')}, {"a/1.cls", "3"}, {"empty", ""}});
  CHECK(members(archive) == std::vector<Found>{{"a/1.jpg", std::string(700, 'x')}, {"a/1.cls", "3"}, {"empty", ""}});
  const std::string mixed =
      tar_member("a/", "", '5') + tar_member("link", "", '2') + tar_member("f", "bytes") + std::string(1024, '\0');
  CHECK(members(mixed) == std::vector<Found>{{"f", "bytes"}});
}

TEST_CASE("names too long for a header: GNU's and pax's ways") {
  const std::string name(180, 'n');
  const std::string gnu = tar_member("././@LongLink", name + '\0', 'L') + tar_member("short", "one");
  CHECK(members(gnu + std::string(1024, '\0')) == std::vector<Found>{{name, "one"}});
  const std::string record = "190 path=" + name + "\n";
  REQUIRE(record.size() == 190);
  const std::string pax = tar_member("PaxHeaders/x", record, 'x') + tar_member("short", "two");
  CHECK(members(pax + std::string(1024, '\0')) == std::vector<Found>{{name, "two"}});
}

TEST_CASE("an archive that is cut short, or none") {
  const std::string archive = tar_bytes({{"one", std::string(3000, 'a')}, {"two", std::string(3000, 'b')}});
  for (const size_t size : {700u, 3000u, 3584u + 100, 3584u, 3584u + 512 + 1000}) {
    CAPTURE(size);
    CHECK(refusal(archive.substr(0, size)).find("runcated") != std::string::npos);
  }
  CHECK(refusal("").find("empty") != std::string::npos);
  CHECK(refusal(std::string(2000, 'x')).starts_with("not a whole tar archive"));
  CHECK(refusal("short").starts_with("not a whole tar archive"));
}

}  // namespace
}  // namespace estrain::archive
