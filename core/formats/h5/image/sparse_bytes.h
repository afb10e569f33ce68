#pragma once
// A sparse view of a large file: pages exist only where something was written.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace estrain::h5 {

class SparseBytes {
 public:
  void write(uint64_t offset, const std::byte* bytes, size_t size);
  // Bytes never written read as zero.
  void read(uint64_t offset, std::byte* bytes, size_t size) const;

 private:
  static constexpr size_t page_size = 4096;
  using Page = std::array<std::byte, page_size>;

  // Calls visit(page number, offset in the page, position in the span, size) for every page that the span touches.
  template <typename Visit>
  static void for_each_page(uint64_t offset, size_t size, Visit&& visit);

  std::map<uint64_t, std::unique_ptr<Page>> pages_;
};

}  // namespace estrain::h5
