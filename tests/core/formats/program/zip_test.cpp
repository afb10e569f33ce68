#include "core/formats/program/zip.h"

#include <doctest/doctest.h>

#include "tests/contains.h"
#include "tests/error_of.h"
#include "tests/zip_file.h"

namespace estrain::program {
namespace {

using testing::zip_of;
using testing::ZipKind;

ZipArchive::Bytes viewed(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string text_of(ZipArchive::Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Replaces a byte.
std::string changed(std::string bytes, size_t at, char to) {
  bytes.at(at) = to;
  return bytes;
}

std::string complaint(const std::string& bytes) {
  return error_of([&] {
           const ZipArchive archive(viewed(bytes));
           for (const char* name : {"a/one", "a/two"}) archive.member(name);
         })
      .message();
}

const std::string sound = zip_of({{"a/one", "first"}, {"a/two", std::string(3000, 'x')}});

TEST_CASE("members are read as they are, and their common folder is found") {
  const ZipArchive archive(viewed(sound));
  CHECK(text_of(archive.member("a/one")) == "first");
  CHECK(archive.member("a/two").size() == 3000);
  CHECK(archive.common_folder() == "a/");
  CHECK_FALSE(archive.contains("one"));
  const std::string other = zip_of({{"a/one", ""}, {"b/two", ""}});
  CHECK(ZipArchive(viewed(other)).common_folder().empty());
  CHECK(ZipArchive(viewed(other)).member("a/one").empty());
}

TEST_CASE("an archive that is cut short anywhere is refused") {
  for (size_t size = 0; size < sound.size(); ++size) {
    CAPTURE(size);
    const std::string cut = sound.substr(0, size);
    CHECK(error_of([&] { ZipArchive(viewed(cut)); }).fault() == Fault::corrupt);
  }
}

TEST_CASE("a changed byte of a member, of its place or of the directory is an error") {
  CHECK(contains(complaint(changed(sound, sound.find("first"), 'F')), "a/one fails its checksum"));
  CHECK(contains(complaint(changed(sound, 0, 'X')), "a/one lies outside"));
  const size_t entry = sound.find("PK\x01\x02");
  CHECK(contains(complaint(changed(sound, entry + 10, 8)), "compressed or encrypted"));
  CHECK(contains(complaint(changed(sound, entry + 8, 1)), "compressed or encrypted"));
  CHECK(contains(complaint(changed(sound, entry, 'X')), "entry 0 of its directory is invalid"));
  CHECK(contains(complaint(changed(sound, entry + 20, 4)), "another size"));
  CHECK(contains(complaint(changed(sound, entry + 45, 1)), "a/one lies outside"));
  CHECK(contains(complaint(changed(sound, sound.size() - 3, 1)), "directory lies outside"));
}

TEST_CASE("an archive whose sizes need zip64 is read, and is refused where one of its records is damaged or missing") {
  const std::string large = zip_of({{"a/one", "first"}, {"a/two", std::string(3000, 'x')}}, ZipKind::large);
  const ZipArchive archive(viewed(large));
  CHECK(text_of(archive.member("a/one")) == "first");
  CHECK(archive.member("a/two").size() == 3000);
  for (size_t size = 0; size < large.size(); ++size)
    CHECK(error_of([&] { ZipArchive(viewed(large.substr(0, size))); }).fault() == Fault::corrupt);

  const size_t entry = large.find("PK\x01\x02"), extra = entry + 46 + 5, end = large.find("PK\x06\x06");
  CHECK(contains(complaint(changed(large, extra + 5, 2)), "a/one is large (zip64), and its entry lacks its size"));
  CHECK(contains(complaint(changed(large, extra + 2, 99)), "a/one is large (zip64), and its entry lacks its size"));
  CHECK(contains(complaint(changed(large, extra + 7, 16)), "a/one is large (zip64), and its entry lacks its size"));
  CHECK(contains(complaint(changed(large, extra + 9 + 7, '\x7f')), "another size than its own"));
  CHECK(contains(complaint(changed(large, extra + 9 + 16 + 7, '\x7f')), "a/one lies outside"));
  CHECK(contains(complaint(changed(large, end, 'X')), "the record with its sizes is missing"));
  CHECK(contains(complaint(changed(large, end + 56, 'X')), "the record with its sizes is missing"));
  CHECK(contains(complaint(changed(large, end + 56 + 15, '\x7f')), "the record with its sizes is missing"));
  CHECK(contains(complaint(changed(large, end + 16, 1)), "one part of several"));
  CHECK(contains(complaint(changed(large, end + 24, 7)), "one part of several"));
  CHECK(contains(complaint(changed(large, end + 40 + 7, '\x7f')), "directory lies outside"));
}

TEST_CASE("a member that stands there twice, or not at all, is an error") {
  CHECK(contains(complaint(zip_of({{"a/one", "x"}, {"a/one", "y"}})), "occurs twice in its directory"));
  CHECK(contains(complaint(zip_of({{"a/one", "x"}})), "a/two is missing"));
}

TEST_CASE("no single changed byte does more than change a message or a name") {
  for (size_t at = 0; at < sound.size(); at += at < 60 || at > 2990 ? 1 : 97) {
    for (const int flip : {1, 128, 255}) {
      std::string bytes = sound;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      try {
        const ZipArchive archive(viewed(bytes));
        for (const char* name : {"a/one", "a/two"})
          if (archive.contains(name)) archive.member(name);
      } catch (const Error& error) {
        CHECK(error.fault() == Fault::corrupt);
      }
    }
  }
}

}  // namespace
}  // namespace estrain::program
