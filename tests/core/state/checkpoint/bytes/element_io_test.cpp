#include "core/state/checkpoint/bytes/element_io.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>

#include "core/base/files/unique_fd.h"
#include "core/state/checkpoint/bytes/byte_io.h"
#include "kernels/digest.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::checkpoint {
namespace {

std::vector<std::byte> elements(size_t bytes, unsigned salt) {
  std::vector<std::byte> all(bytes);
  for (size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>((i * 2654435761u + salt) >> 13);
  return all;
}

struct Placed {
  uint64_t offset;
  std::vector<std::byte> bytes;
};

// Over several of the writer's buffers (4 MiB), across their borders, with gaps of any size between them.
std::vector<Placed> sample_elements() {
  return {{512, elements(4, 1)},
          {520, elements((4 << 20) - 8, 2)},
          {(4 << 20) + 516, elements(4096, 3)},
          {(9 << 20) + 3, elements((11 << 20) + 40, 4)},
          {(21 << 20), elements(1000, 5)}};
}

// Writes them. Returns the writer's digests.
std::vector<uint64_t> write_all(const std::string& path, int fd, const std::vector<Placed>& all) {
  ElementWriter writer(path, fd, all.back().offset + all.back().bytes.size());
  std::vector<uint64_t> digests;
  for (const Placed& one : all) digests.push_back(writer.write(one.offset, one.bytes.data(), one.bytes.size()));
  writer.finish();
  return digests;
}

TEST_CASE("elements are read as they were written, with the digest of their bytes; gaps are zero") {
  const ScratchFolder folder;
  const std::string path = folder / "elements";
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
  const std::vector<Placed> all = sample_elements();
  const std::vector<uint64_t> digests = write_all(path, fd.get(), all);
  std::vector<std::vector<std::byte>> read;
  std::vector<ElementRange> ranges;
  for (const Placed& one : all) {
    CHECK(digests[ranges.size()] == kernels::digest(one.bytes.data(), one.bytes.size()));
    read.emplace_back(one.bytes.size());
    ranges.push_back({one.offset, one.bytes.size(), read.back().data()});
  }
  CHECK(read_elements(fd.get(), ranges) == digests);
  for (size_t i = 0; i < all.size(); ++i) CHECK(read[i] == all[i].bytes);
  for (ElementRange& range : ranges) range.out = nullptr;
  CHECK(read_elements(fd.get(), ranges) == digests);

  std::vector<std::byte> gap((9 << 20) + 3 - ((4 << 20) + 516 + 4096), std::byte{1});
  read_bytes(fd.get(), (4 << 20) + 516 + 4096, gap.data(), gap.size());
  CHECK(std::ranges::all_of(gap, [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_CASE("elements beyond the file's end are refused") {
  const ScratchFolder folder;
  const std::string path = folder / "short";
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
  const std::vector<std::byte> bytes = elements(1000, 1);
  write_bytes(fd.get(), 0, bytes.data(), bytes.size());
  CHECK(length_of(fd.get()) == 1000);
  std::vector<std::byte> out(8);
  CHECK(error_of([&] { read_elements(fd.get(), {{996, 8, out.data()}}); }).fault() == Fault::corrupt);
  CHECK(error_of([&] { read_elements(fd.get(), {{0, 4, nullptr}, {2000, 4, nullptr}}); }).fault() == Fault::corrupt);
  CHECK(error_of([&] { read_bytes(fd.get(), 993, out.data(), 8); }).fault() == Fault::corrupt);
}

TEST_CASE("what cannot be written is told") {
  const ScratchFolder folder;
  const std::string path = folder.write("read-only", "");
  const UniqueFd fd(::open(path.c_str(), O_RDONLY));
  const std::vector<std::byte> bytes(8);
  CHECK(error_of([&] { write_bytes(fd.get(), 0, bytes.data(), bytes.size()); }).fault() == Fault::io);
}

}  // namespace
}  // namespace estrain::checkpoint
