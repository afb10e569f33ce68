#include "core/formats/program/write_program.h"

#include <doctest/doctest.h>

#include <cstring>

#include "core/formats/program/zip.h"
#include "tests/program_file.h"

namespace estrain::program {
namespace {

using testing::ProgramParts;
using testing::small_program;

std::span<const std::byte> bytes_of(const std::string& file) { return std::as_bytes(std::span(file)); }

// Every element twice what it was, of floats.
void doubled(const StoredTensor& tensor, std::byte* out) {
  if (tensor.type != ScalarType::f32) return;
  for (size_t i = 0; i < tensor.bytes.size(); i += sizeof(float)) {
    float value;
    std::memcpy(&value, tensor.bytes.data() + i, sizeof value);
    value *= 2;
    std::memcpy(out + i, &value, sizeof value);
  }
}

TEST_CASE("other weights: what was written stands under its name, and all else as before") {
  const std::string file = small_program().file();
  const std::vector<std::byte> written = with_weights(bytes_of(file), "net.pt2", doubled);
  REQUIRE(written.size() == file.size());
  ProgramParts expected = small_program();
  expected.files["data/weights/weight_0"] = testing::raw<float>({2, 4, 6, -2, 1, 0.5f});
  expected.files["data/weights/weight_1"] = testing::raw<float>({1, -1});
  expected.files["data/weights/weight_2"] = testing::raw<float>({0, 2});
  expected.files["data/weights/weight_3"] = testing::raw<float>({2, 8});
  CHECK(std::memcmp(written.data(), expected.file().data(), file.size()) == 0);
}

TEST_CASE("a tensor in another order than C's is given in C order, and written in its own") {
  ProgramParts parts = small_program();
  parts.weights["config"]["layer.weight"]["tensor_meta"]["strides"] = testing::sizes_of({1, 2});
  const std::string file = parts.file();
  const auto first_three = [](const StoredTensor& tensor, std::byte* out) {
    const float values[] = {10, 20, 30};
    if (tensor.name == "layer.weight") std::memcpy(out, values, sizeof values);
  };
  const std::vector<std::byte> written = with_weights(bytes_of(file), "net.pt2", first_three);
  parts.files["data/weights/weight_0"] = testing::raw<float>({10, 2, 20, -1, 30, 0.25f});
  CHECK(std::memcmp(written.data(), parts.file().data(), file.size()) == 0);
}

TEST_CASE("a checksum that stands behind its member, as PyTorch writes them, is renewed, too") {
  std::string archive = testing::zip_of({{"a", "12345678"}});
  const size_t content = archive.find("12345678"), directory = archive.find("PK\1\2");
  archive[6] = 8;  // flags of the member's own record
  archive.replace(14, 4, 4, '\0');
  std::string descriptor = "PK\7\10";
  testing::put(descriptor, 0, 4);
  testing::put(descriptor, 8, 4);
  testing::put(descriptor, 8, 4);
  archive.insert(directory, descriptor);
  const size_t end = archive.rfind("PK\5\6");
  archive[end + 16] = static_cast<char>(archive[end + 16] + 16);
  archive.replace(content, 8, "abcdefgh");
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(archive));
  CHECK_THROWS((void)ZipArchive(bytes).member("a"));
  ZipArchive(bytes).renew_checksums(bytes);
  CHECK(ZipArchive(bytes).member("a").size() == 8);
  uint32_t behind;
  std::memcpy(&behind, archive.data() + content + 12, sizeof behind);
  CHECK(behind == testing::crc_of("abcdefgh"));
}

}  // namespace
}  // namespace estrain::program
