#include "core/base/process/build_id.h"

#include <doctest/doctest.h>
#include <gnu/libc-version.h>

#include "tests/scratch_folder.h"

namespace estrain {
namespace {

// The note as in the file: after its header and name.
uint64_t id_in_file(const std::string& path) {
  const std::string bytes = bytes_of(path), note("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);
  const size_t at = bytes.find(note);
  REQUIRE(at != std::string::npos);
  uint64_t id = 0;
  bytes.copy(reinterpret_cast<char*>(&id), sizeof id, at + note.size());
  return id;
}

void some_code() {}

TEST_CASE("the build id of what runs is the one in its file") {
  const uint64_t own = build_id_of_program();
  CHECK(own != 0);
  CHECK(own == id_in_file("/proc/self/exe"));
  CHECK(build_id_of_code(reinterpret_cast<const void*>(&some_code)) == own);
}

TEST_CASE("libraries have ids of their own; what is not loaded has none") {
  const uint64_t library = build_id_of_code(reinterpret_cast<const void*>(&::gnu_get_libc_version));
  CHECK(library != 0);
  CHECK(library != build_id_of_program());
  CHECK(build_id_of_library("libc.so.6") == library);
  CHECK(build_id_of_library("libc.so") == 0);
  CHECK(build_id_of_code(nullptr) == 0);
}

}  // namespace
}  // namespace estrain
