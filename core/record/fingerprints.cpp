#include "core/record/fingerprints.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/files.h"

namespace estrain::record {
namespace {

constexpr char kMagic[8] = {'E', 'S', 'T', 'F', 'P', 'R', 'T', '1'};

struct Head {
  char magic[8];
  uint64_t num_names;
  uint64_t names_bytes;  // of the names, each ended by a line feed, padded with zeros to a multiple of 8
};

size_t record_bytes(size_t num_digests) { return sizeof(int64_t) + num_digests * sizeof(uint64_t); }

std::string header_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  text.resize((text.size() + 7) / 8 * 8, '\0');
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.num_names = names.size();
  head.names_bytes = text.size();
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + text;
}

void write_at_end(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error("cannot write " + path, errno);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

// Bytes of the file that stay: header and records up to step `last`.
size_t kept_bytes(const std::string& path, const std::vector<std::string>& names, Step last) {
  const FingerprintReader reader(path);
  if (reader.names() != names) {
    throw Error::make(Fault::mismatch, "{}: holds digests of other tensors than this job has", path)
        .advise("start the run in a directory of its own");
  }
  size_t records = 0;
  while (records < reader.size() && reader.step(records) <= last) ++records;
  return header_text(names).size() + records * record_bytes(names.size());
}

}  // namespace

FingerprintWriter::FingerprintWriter(std::string path, const std::vector<std::string>& names, Step last)
    : path_(std::move(path)), num_digests_(names.size()) {
  struct stat info {};
  const bool present =
      ::stat(path_.c_str(), &info) == 0 && static_cast<size_t>(info.st_size) >= header_text(names).size();
  const size_t keep = present ? kept_bytes(path_, names, last) : 0;
  fd_ = open_file(path_, O_WRONLY | O_CREAT | O_APPEND);
  if (::ftruncate(fd_.get(), static_cast<off_t>(keep)) != 0) throw system_error("cannot shorten " + path_, errno);
  if (keep == 0) write_at_end(fd_.get(), header_text(names), path_);
}

void FingerprintWriter::append(std::span<const StepRecord> records) {
  std::string text;
  text.reserve(records.size() * record_bytes(num_digests_));
  for (const StepRecord& record : records) {
    text.append(reinterpret_cast<const char*>(&record.step.value), sizeof(int64_t));
    text.append(reinterpret_cast<const char*>(record.digests.data()), num_digests_ * sizeof(uint64_t));
  }
  write_at_end(fd_.get(), text, path_);
}

FingerprintReader::FingerprintReader(const std::string& path) {
  const UniqueFd fd = open_file(path, O_RDONLY);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw system_error("cannot read " + path, errno);
  bytes_ = static_cast<size_t>(info.st_size);
  Head head{};
  if (bytes_ < sizeof head) throw Error::make(Fault::corrupt, "{}: too short for a fingerprints file", path);
  void* map = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (map == MAP_FAILED) throw system_error("cannot map " + path, errno);
  base_ = static_cast<const std::byte*>(map);
  std::memcpy(&head, base_, sizeof head);
  records_at_ = sizeof head + head.names_bytes;
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0 || head.names_bytes > bytes_ - sizeof head ||
      head.names_bytes % 8 != 0) {
    ::munmap(map, bytes_);
    throw Error::make(Fault::corrupt, "{}: not a fingerprints file of this version, or damaged", path);
  }
  std::string_view text(reinterpret_cast<const char*>(base_ + sizeof head), head.names_bytes);
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    names_.emplace_back(text.substr(0, end));
  if (names_.size() != head.num_names) {
    ::munmap(map, bytes_);
    throw Error::make(Fault::corrupt, "{}: its list of names is damaged", path);
  }
  num_records_ = (bytes_ - records_at_) / record_bytes(names_.size());
}

FingerprintReader::~FingerprintReader() { ::munmap(const_cast<std::byte*>(base_), bytes_); }

const std::byte* FingerprintReader::record_at(size_t record) const {
  return base_ + records_at_ + record * record_bytes(names_.size());
}

Step FingerprintReader::step(size_t record) const {
  int64_t value = 0;
  std::memcpy(&value, record_at(record), sizeof value);
  return Step(value);
}

std::span<const uint64_t> FingerprintReader::digests(size_t record) const {
  return {reinterpret_cast<const uint64_t*>(record_at(record) + sizeof(int64_t)), names_.size()};
}

std::optional<size_t> FingerprintReader::find(Step wanted) const {
  size_t low = 0, high = num_records_;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (step(middle) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == num_records_ || step(low) != wanted) return std::nullopt;
  return low;
}

}  // namespace estrain::record
