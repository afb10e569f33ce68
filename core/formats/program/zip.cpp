#include "core/formats/program/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"

namespace estrain::program {
namespace {

// Sizes and signatures of the three records of the format ("PKWARE's application note", sections 4.3.7, .12, .16).
constexpr size_t kLocalHeader = 30, kDirectoryEntry = 46, kEndRecord = 22;
constexpr uint32_t kLocalSignature = 0x04034b50, kEntrySignature = 0x02014b50, kEndSignature = 0x06054b50;
constexpr size_t kLongestComment = 65535;
constexpr uint32_t kSeeZip64 = 0xffffffff;
constexpr size_t kMostMembers = 65534;
constexpr uint32_t kDescriptorSignature = 0x08074b50;
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

}  // namespace

ZipArchive::ZipArchive(Bytes bytes) : bytes_(bytes) { read_directory(); }

void ZipArchive::read_directory() {
  if (bytes_.size() < kEndRecord) throw damaged(fmt::format("it has {} bytes", bytes_.size()));
  const size_t last = bytes_.size() - kEndRecord;
  const size_t first = last - std::min(last, kLongestComment);
  size_t end = last;
  while (Record(bytes_.subspan(end)).u32(0) != kEndSignature) {
    if (end == first) throw damaged("its directory is missing: it is truncated, or another kind of file");
    --end;
  }
  const Record record(bytes_.subspan(end));
  const size_t members = record.u16(10);
  const uint64_t size = record.u32(12);
  uint64_t at = record.u32(16);
  if (at == kSeeZip64 || size == kSeeZip64 || members > kMostMembers)
    throw damaged("archives of 4 GiB and more (zip64) are not supported");
  if (record.u16(4) != 0 || record.u16(6) != 0 || record.u16(8) != members) throw damaged("it is one part of several");
  if (!fits(bytes_, at, size) || at + size > end) throw damaged("its directory lies outside of it");
  const uint64_t directory_end = at + size;
  for (size_t i = 0; i < members; ++i) {
    if (directory_end - at < kDirectoryEntry) throw damaged(fmt::format("entry {} is truncated", i));
    const Record entry(bytes_.subspan(at));
    const size_t name_bytes = entry.u16(28), extra = entry.u16(30), comment = entry.u16(32);
    const uint64_t whole = kDirectoryEntry + name_bytes + extra + comment;
    if (entry.u32(0) != kEntrySignature || directory_end - at < whole)
      throw damaged(fmt::format("entry {} of its directory is invalid", i));
    const std::string name(reinterpret_cast<const char*>(bytes_.data()) + at + kDirectoryEntry, name_bytes);
    if (entry.u16(10) != 0 || (entry.u16(8) & kEncrypted) != 0)
      throw damaged(name + " is compressed or encrypted; torch.export.save stores members uncompressed");
    if (entry.u32(20) == kSeeZip64 || entry.u32(24) == kSeeZip64 || entry.u32(42) == kSeeZip64)
      throw damaged("archives of 4 GiB and more (zip64) are not supported");
    if (entry.u32(20) != entry.u32(24)) throw damaged(name + " is stored, but with another size than its own");
    if (!members_.emplace(name, Member{at, entry.u32(42), entry.u32(24), entry.u32(16), false}).second)
      throw damaged(name + " occurs twice in its directory");
    at += whole;
  }
}

ZipArchive::Bytes ZipArchive::member(std::string_view name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) throw damaged(std::string(name) + " is missing");
  const Member& member = found->second;
  const Bytes content = content_of(member, name);
  if (member.is_checked) return content;
  if (crc_of(content) != member.crc) throw damaged(fmt::format("{} fails its checksum", name));
  member.is_checked = true;
  return content;
}

ZipArchive::Bytes ZipArchive::content_of(const Member& member, std::string_view name) const {
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
