#include "core/data/files/file_bytes.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include "core/data/files/data_files.h"
#include "tests/scratch_folder.h"

namespace estrain::data {
namespace {

void write_compressed(const std::string& path, const std::string& text) {
  const gzFile file = ::gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(::gzwrite(file, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  REQUIRE(::gzclose(file) == Z_OK);
}

std::string text_of(const FileBytes& file) { return {reinterpret_cast<const char*>(file.data()), file.size()}; }

TEST_CASE("a compressed file that is kept is not decompressed again, until it changes") {
  const ScratchFolder folder;
  const std::string kept = folder / "kept.gz", other = folder / "other.gz", plain = folder / "plain";
  write_compressed(kept, "kept before");
  write_compressed(other, "another one");
  folder.write("plain", "a plain file");
  CHECK(FileBytes::open(kept).data() != FileBytes::open(kept).data());
  keep_decompressed({{"a", kept}, {"b", other}, {"c", plain}, {"d", kept, FileKind::as_it_is}});
  const FileBytes first = FileBytes::open(kept);
  CHECK(text_of(first) == "kept before");
  CHECK(FileBytes::open(kept).data() == first.data());
  CHECK(text_of(FileBytes::open(other)) == "another one");
  CHECK(text_of(FileBytes::open(plain)) == "a plain file");
  CHECK(text_of(FileBytes::map(kept)) != "kept before");

  write_compressed(kept, "changed now");
  CHECK(text_of(FileBytes::open(kept)) == "changed now");
  CHECK(text_of(first) == "kept before");
}

}  // namespace
}  // namespace estrain::data
