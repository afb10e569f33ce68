#include "core/formats/h5/image/sparse_bytes.h"

#include <algorithm>
#include <cstring>

namespace estrain::h5 {

template <typename Visit>
void SparseBytes::for_each_page(uint64_t offset, size_t size, Visit&& visit) {
  for (size_t done = 0; done < size;) {
    const uint64_t at = offset + done;
    const size_t in_page = at % page_size;
    const size_t span = std::min(size - done, page_size - in_page);
    visit(at / page_size, in_page, done, span);
    done += span;
  }
}

void SparseBytes::write(uint64_t offset, const std::byte* bytes, size_t size) {
  for_each_page(offset, size, [&](uint64_t number, size_t in_page, size_t done, size_t span) {
    std::unique_ptr<Page>& page = pages_[number];
    if (!page) page = std::make_unique<Page>();
    std::memcpy(page->data() + in_page, bytes + done, span);
  });
}

void SparseBytes::read(uint64_t offset, std::byte* bytes, size_t size) const {
  for_each_page(offset, size, [&](uint64_t number, size_t in_page, size_t done, size_t span) {
    const auto page = pages_.find(number);
    if (page == pages_.end())
      std::memset(bytes + done, 0, span);
    else
      std::memcpy(bytes + done, page->second->data() + in_page, span);
  });
}

}  // namespace estrain::h5
