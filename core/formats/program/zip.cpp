#include "core/formats/program/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace estrain::program {
namespace {

// Sizes and signatures of the records of the format ("PKWARE's application note", sections 4.3.7, 9, 12, 14 to 16).
constexpr size_t kLocalHeader = 30, kDirectoryEntry = 46, kEndRecord = 22, kEndRecord64 = 56, kLocator64 = 20;
constexpr uint32_t kLocalSignature = 0x04034b50, kEntrySignature = 0x02014b50, kEndSignature = 0x06054b50,
                   kEndSignature64 = 0x06064b50, kLocatorSignature64 = 0x07064b50, kDescriptorSignature = 0x08074b50;
constexpr size_t kLongestComment = 65535;
constexpr uint32_t kSeeZip64 = 0xffffffff;              // instead of a size or offset
constexpr uint16_t kMembersSeeZip64 = 0xffff;           // instead of the number of members
constexpr uint16_t kZip64Extra = 1;                     // the part of an entry's extra field with its sizes and offset
constexpr uint16_t kEncrypted = 1, kHasDescriptor = 8;  // flags; a descriptor stands behind the member

Error damaged(const std::string& what) {
  return Error::make(Fault::corrupt, "not a valid zip archive: {}", what)
      .advise("export the program again; the file must be written by torch.export.save");
}

// The little-endian fields of a record that lies completely within the archive.
class Record {
 public:
  explicit Record(ZipArchive::Bytes bytes) : bytes_(bytes) {}
  uint16_t u16(size_t at) const { return static_cast<uint16_t>(byte(at) | byte(at + 1) << 8); }
  uint32_t u32(size_t at) const { return u16(at) | uint32_t{u16(at + 2)} << 16; }
  uint64_t u64(size_t at) const { return u32(at) | uint64_t{u32(at + 4)} << 32; }

 private:
  uint16_t byte(size_t at) const { return static_cast<uint16_t>(bytes_[at]); }
  ZipArchive::Bytes bytes_;
};

uint32_t crc_of(ZipArchive::Bytes content) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

void put_u32(std::span<std::byte> bytes, uint64_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

bool fits(ZipArchive::Bytes bytes, uint64_t at, uint64_t size) {
  return at <= bytes.size() && size <= bytes.size() - at;
}

// Where the directory lies, by the archive's end record.
struct DirectoryPlace {
  uint64_t at, size, members;
};

// Returns where the end record begins: it is the last record, and a comment may follow.
size_t find_end_record(ZipArchive::Bytes bytes) {
  if (bytes.size() < kEndRecord) throw damaged(fmt::format("it has {} bytes", bytes.size()));
  const size_t last = bytes.size() - kEndRecord;
  const size_t first = last - std::min(last, kLongestComment);
  size_t end = last;
  while (Record(bytes.subspan(end)).u32(0) != kEndSignature) {
    if (end == first) throw damaged("its directory is missing: it is truncated, or another kind of file");
    --end;
  }
  return end;
}

// Reads the end record of a large archive. A locator between this record and the other end record names its place.
DirectoryPlace read_end_record64(ZipArchive::Bytes bytes, size_t end) {
  const auto missing = [] { return damaged("it is large (zip64), and the record with its sizes is missing"); };
  if (end < kLocator64) throw missing();
  const Record locator(bytes.subspan(end - kLocator64));
  const uint64_t at = locator.u64(8);
  if (locator.u32(0) != kLocatorSignature64 || !fits(bytes.first(end - kLocator64), at, kEndRecord64)) throw missing();
  const Record record(bytes.subspan(at));
  if (record.u32(0) != kEndSignature64) throw missing();
  if (record.u32(16) != 0 || record.u32(20) != 0 || record.u64(24) != record.u64(32))
    throw damaged("it is one part of several");
  return {record.u64(48), record.u64(40), record.u64(32)};
}

DirectoryPlace place_of_directory(ZipArchive::Bytes bytes, size_t end) {
  const Record record(bytes.subspan(end));
  const DirectoryPlace place{record.u32(16), record.u32(12), record.u16(10)};
  if (place.at == kSeeZip64 || place.size == kSeeZip64 || place.members == kMembersSeeZip64)
    return read_end_record64(bytes, end);
  if (record.u16(4) != 0 || record.u16(6) != 0 || record.u16(8) != place.members)
    throw damaged("it is one part of several");
  return place;
}

// The sizes and the offset of a member.
struct EntrySizes {
  uint64_t size, stored_size, header_at;
};

// Takes the values that do not fit into the entry's own fields from `extra`, its extra field. Returns false if a value
// is missing there.
bool complete_sizes(EntrySizes& sizes, ZipArchive::Bytes extra) {
  ZipArchive::Bytes large;
  for (ZipArchive::Bytes rest = extra; rest.size() >= 4;) {
    const Record part(rest);
    const size_t bytes = part.u16(2);
    if (bytes > rest.size() - 4) return false;
    if (part.u16(0) == kZip64Extra) large = rest.subspan(4, bytes);
    rest = rest.subspan(4 + bytes);
  }
  for (uint64_t* value : {&sizes.size, &sizes.stored_size, &sizes.header_at}) {
    if (*value != kSeeZip64) continue;
    if (large.size() < 8) return false;
    *value = Record(large).u64(0);
    large = large.subspan(8);
  }
  return true;
}

}  // namespace

ZipArchive::ZipArchive(Bytes bytes) : bytes_(bytes) { read_directory(); }

void ZipArchive::read_directory() {
  const size_t end = find_end_record(bytes_);
  const DirectoryPlace place = place_of_directory(bytes_, end);
  if (!fits(bytes_.first(end), place.at, place.size)) throw damaged("its directory lies outside of it");
  uint64_t at = place.at;
  for (uint64_t i = 0; i < place.members; ++i) at += add_entry(at, place.at + place.size);
}

uint64_t ZipArchive::add_entry(uint64_t at, uint64_t end) {
  if (end - at < kDirectoryEntry) throw damaged(fmt::format("entry {} is truncated", members_.size()));
  const Record entry(bytes_.subspan(at));
  const size_t name_bytes = entry.u16(28), extra = entry.u16(30), comment = entry.u16(32);
  const uint64_t whole = kDirectoryEntry + name_bytes + extra + comment;
  if (entry.u32(0) != kEntrySignature || end - at < whole)
    throw damaged(fmt::format("entry {} of its directory is invalid", members_.size()));
  const std::string name(reinterpret_cast<const char*>(bytes_.data()) + at + kDirectoryEntry, name_bytes);
  if (entry.u16(10) != 0 || (entry.u16(8) & kEncrypted) != 0)
    throw damaged(name + " is compressed or encrypted; torch.export.save stores members uncompressed");
  EntrySizes sizes{entry.u32(24), entry.u32(20), entry.u32(42)};
  if (!complete_sizes(sizes, bytes_.subspan(at + kDirectoryEntry + name_bytes, extra)))
    throw damaged(name + " is large (zip64), and its entry lacks its size or place");
  if (sizes.stored_size != sizes.size) throw damaged(name + " is stored, but with another size than its own");
  if (!members_.emplace(name, StoredFile{at, sizes.header_at, sizes.size, entry.u32(16), false}).second)
    throw damaged(name + " occurs twice in its directory");
  return whole;
}

ZipArchive::Bytes ZipArchive::member(std::string_view name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) throw damaged(std::string(name) + " is missing");
  const StoredFile& member = found->second;
  const Bytes content = content_of(member, name);
  if (member.is_checked) return content;
  if (crc_of(content) != member.crc) throw damaged(fmt::format("{} fails its checksum", name));
  member.is_checked = true;
  return content;
}

ZipArchive::Bytes ZipArchive::content_of(const StoredFile& member, std::string_view name) const {
  if (!fits(bytes_, member.header_at, kLocalHeader)) throw damaged(fmt::format("{} lies outside of it", name));
  const Record header(bytes_.subspan(member.header_at));
  const uint64_t begin = member.header_at + kLocalHeader + header.u16(26) + header.u16(28);
  if (header.u32(0) != kLocalSignature || !fits(bytes_, begin, member.size))
    throw damaged(fmt::format("{} lies outside of it", name));
  return bytes_.subspan(begin, member.size);
}

void ZipArchive::renew_checksums(std::span<std::byte> archive) const {
  for (const auto& [name, member] : members_) {
    const Bytes content = content_of(member, name);
    const uint32_t crc = crc_of(content);
    put_u32(archive, member.entry_at + 16, crc);
    if ((Record(bytes_.subspan(member.header_at)).u16(6) & kHasDescriptor) == 0) {
      put_u32(archive, member.header_at + 14, crc);
      continue;
    }
    uint64_t at = static_cast<uint64_t>(content.data() - bytes_.data()) + content.size();
    if (!fits(bytes_, at, 8)) throw damaged(fmt::format("the part after {} is truncated", name));
    if (Record(bytes_.subspan(at)).u32(0) == kDescriptorSignature) at += 4;
    put_u32(archive, at, crc);
  }
}

std::string ZipArchive::common_folder() const {
  if (members_.empty()) return "";
  const std::string& first = members_.begin()->first;
  const size_t slash = first.find('/');
  if (slash == std::string::npos) return "";
  const std::string folder = first.substr(0, slash + 1);
  const bool common =
      std::ranges::all_of(members_, [&](const auto& member) { return member.first.starts_with(folder); });
  return common ? folder : "";
}

}  // namespace estrain::program
