#include "core/formats/archive/tar.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/base/error.h"

namespace estrain::archive {
namespace {

struct CloseArchive {
  void operator()(::archive* reader) const { archive_read_free(reader); }
};
using Reader = std::unique_ptr<::archive, CloseArchive>;

Error damaged(::archive* reader) {
  const char* words = archive_error_string(reader);
  return Error::make(Fault::corrupt, "not a whole tar archive: {}", words ? words : "damaged");
}

void require(int result, ::archive* reader) {
  if (result < ARCHIVE_WARN) throw damaged(reader);
}

// libarchive returns pointers into the archive's memory, and a pointer gives the file's offset.
uint64_t offset_of(::archive* reader, std::span<const std::byte> archive, std::string_view name, uint64_t size) {
  const void* data = nullptr;
  size_t bytes = 0;
  int64_t place = 0;
  require(archive_read_data_block(reader, &data, &bytes, &place), reader);
  const auto* begin = static_cast<const std::byte*>(data);
  const bool inside = begin >= archive.data() && begin + bytes <= archive.data() + archive.size();
  if (place != 0 || bytes != size || !inside) {
    throw Error::make(
        Fault::corrupt, "{}: {}", name,
        inside && begin + bytes == archive.data() + archive.size() ? "truncated" : "sparse, or not stored verbatim");
  }
  return static_cast<uint64_t>(begin - archive.data());
}

// If an archive is truncated between two files, only the end marker is missing.
void require_end(std::span<const std::byte> archive) {
  constexpr size_t block = 512;
  const auto end = archive.last(std::min(archive.size(), block));
  if (end.size() < block || std::ranges::any_of(end, [](std::byte byte) { return byte != std::byte{0}; }))
    throw Error(Fault::corrupt, "not a whole tar archive: truncated: the zeros at its end are missing");
}

}  // namespace

void each_member(std::span<const std::byte> archive, const std::function<void(const TarMember&)>& each) {
  if (archive.empty()) throw Error(Fault::corrupt, "not a tar archive: empty");
  const Reader reader(archive_read_new());
  if (!reader) throw Error(Fault::bug, "libarchive does not start");
  archive_read_support_format_tar(reader.get());
  require(archive_read_open_memory(reader.get(), archive.data(), archive.size()), reader.get());
  for (archive_entry* entry = nullptr;;) {
    const int result = archive_read_next_header(reader.get(), &entry);
    if (result == ARCHIVE_EOF) return require_end(archive);
    require(result, reader.get());
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr) continue;
    const char* path = archive_entry_pathname(entry);
    TarMember member{path ? path : "", 0, static_cast<uint64_t>(archive_entry_size(entry))};
    if (member.size > archive.size())
      throw Error::make(Fault::corrupt, "{}: truncated: it declares {} bytes", member.name, member.size);
    if (member.size > 0) member.offset = offset_of(reader.get(), archive, member.name, member.size);
    each(member);
  }
}

}  // namespace estrain::archive
