#include "core/state/record/logs/fingerprints.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/input_file.h"
#include "kernels/digest.h"

namespace estrain::record {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr char magic[8] = {'E', 'S', 'T', 'F', 'P', 'R', 'T', '1'};

struct Head {
  char magic[8];
  uint64_t num_names;
  uint64_t names_bytes;  // size of the names, each with a line feed, padded with zeros to a multiple of 8
};

// A record consists of step, digests and check.
size_t record_words(size_t num_digests) { return num_digests + 2; }

// Returns a check that is not zero for a record of zeros, as left by a file system after a power cut.
uint64_t check_of(const uint64_t* words, size_t num_digests) {
  return ~kernels::digest(words, (num_digests + 1) * sizeof(uint64_t));
}

std::string header_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  text.resize((text.size() + 7) / 8 * 8, '\0');
  Head head{};
  std::memcpy(head.magic, magic, sizeof magic);
  head.num_names = names.size();
  head.names_bytes = text.size();
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + text;
}

// Returns false for a missing file, or only an unfinished header.
bool is_begun(const std::string& path, const std::string& header) {
  std::error_code absent;
  const auto size = std::filesystem::file_size(path, absent);
  return !absent && (size >= header.size() || !header.starts_with(read_file(path)));
}

struct KeptRecords {
  size_t records = 0;
  std::string damage;  // why the records up to `last` are damaged
};

KeptRecords records_until(const FingerprintReader& reader, Step last) {
  KeptRecords kept;
  size_t high = reader.size();
  while (kept.records < high) {
    const size_t middle = (kept.records + high) / 2;
    if (!reader.intact(middle)) return {0, fmt::format("its record {} fails its check", middle + 1)};
    if (reader.step(middle) <= last)
      kept.records = middle + 1;
    else
      high = middle;
  }
  const size_t checked = kCheckedBytes / (record_words(reader.names().size()) * sizeof(uint64_t)) + 1;
  const size_t first = kept.records - std::min(kept.records, checked);
  for (size_t i = first; i < kept.records; ++i) {
    if (!reader.intact(i)) return {0, fmt::format("its record {} fails its check", i + 1)};
    if (i > first && reader.step(i) <= reader.step(i - 1)) return {0, fmt::format("its record {} is old", i + 1)};
  }
  const Step reached = kept.records > 0 ? reader.step(kept.records - 1) : Step(0);
  if (kept.records == reader.size() && reader.size_with_damaged() > reader.size() && reached < last)
    kept.damage = fmt::format("the data after its record of step {} fails its check", reached);
  return kept;
}

// Creates the file if needed, and returns the number of its bytes to keep.
uint64_t prepare(const std::string& path, const std::vector<std::string>& names, Step last) {
  const std::string header = header_of(names);
  if (!is_begun(path, header)) {
    AppendedFile(path, 0).append(header);
    return header.size();
  }
  const FingerprintReader reader(path);
  if (reader.names() != names)
    throw Error::make(Fault::mismatch, "{}: has digests of tensors other than this job's", path)
        .advise("start the run in another directory");
  const KeptRecords kept = records_until(reader, last);
  if (!kept.damage.empty()) throw damaged(path, kept.damage);
  return header.size() + kept.records * record_words(names.size()) * sizeof(uint64_t);
}

// Copies intact records up to `last`, with increasing steps.
void copy_sound_records(const FingerprintReader& reader, Step last, AppendedFile& copy) {
  std::string text(reader.header());
  Step newest(-1);
  for (size_t i = 0; i < reader.size(); ++i) {
    if (!reader.intact(i) || reader.step(i) > last || reader.step(i) <= newest) continue;
    newest = reader.step(i);
    text += reader.bytes(i);
    if (text.size() < kWriteBytes) continue;
    copy.append(text);
    text.clear();
  }
  copy.append(text);
}

}  // namespace

std::optional<Damage> mend_fingerprints(const std::string& path, Step last) {
  if (std::error_code absent; std::filesystem::file_size(path, absent) == 0 || absent) return std::nullopt;
  const std::string sound = path + ".tmp";
  std::string why;
  try {
    const FingerprintReader reader(path);
    why = records_until(reader, last).damage;
    if (why.empty()) return std::nullopt;
    AppendedFile copy(sound, 0);
    copy_sound_records(reader, last, copy);
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) throw;
    return put_aside(path, "", error.message());
  }
  return put_aside(path, sound, why);
}

FingerprintWriter::FingerprintWriter(const std::string& path, const std::vector<std::string>& names, Step last)
    : num_digests_(names.size()), last_(last), file_(path, prepare(path, names, last)) {}

void FingerprintWriter::append(std::span<const StepRecord> records) {
  std::vector<uint64_t> words;
  words.reserve(records.size() * record_words(num_digests_));
  Step last = last_;
  for (const StepRecord& record : records) {
    if (record.step <= last_) continue;
    if (record.digests.size() != num_digests_ || record.step <= last)
      throw Error::make(Fault::bug, "fingerprints: step {} with {} digests after step {}", record.step,
                        record.digests.size(), last);
    const size_t begin = words.size();
    words.push_back(static_cast<uint64_t>(record.step.value));
    words.insert(words.end(), record.digests.begin(), record.digests.end());
    words.push_back(check_of(words.data() + begin, num_digests_));
    last = record.step;
  }
  file_.append({reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t)});
  last_ = last;
}

FingerprintReader::FingerprintReader(const std::string& path) : path_(path) {
  const UniqueFd fd = open_input(path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw system_error("cannot read " + path, errno);
  bytes_ = static_cast<size_t>(info.st_size);
  if (bytes_ < sizeof(Head)) throw Error::make(Fault::corrupt, "{}: too short for a fingerprints file", path);
  void* map = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (map == MAP_FAILED) throw system_error("cannot map " + path, errno);
  base_ = static_cast<const std::byte*>(map);
  try {
    read_names();
    find_records();
  } catch (...) {
    ::munmap(map, bytes_);
    throw;
  }
}

FingerprintReader::~FingerprintReader() { ::munmap(const_cast<std::byte*>(base_), bytes_); }

void FingerprintReader::read_names() {
  Head head;
  std::memcpy(&head, base_, sizeof head);
  if (std::memcmp(head.magic, magic, sizeof magic) != 0)
    throw Error::make(Fault::corrupt, "{}: not a fingerprints file of this version, or damaged", path_);
  if (head.names_bytes > bytes_ - sizeof head || head.names_bytes % 8 != 0)
    throw Error::make(Fault::corrupt, "{}: its list of names is damaged", path_);
  records_at_ = sizeof head + head.names_bytes;
  std::string_view text(reinterpret_cast<const char*>(base_ + sizeof head), head.names_bytes);
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    names_.emplace_back(text.substr(0, end));
  const bool padded = text.size() < 8 && text.find_first_not_of('\0') == text.npos;
  if (names_.size() != head.num_names || !padded)
    throw Error::make(Fault::corrupt, "{}: its list of names is damaged", path_);
}

// A power cut leaves a torn, zero or stale tail, but not many invalid records.
void FingerprintReader::find_records() {
  const size_t whole = (bytes_ - records_at_) / (record_words(names_.size()) * sizeof(uint64_t));
  num_records_ = num_whole_ = whole;
  while (num_records_ > 0 && !intact(num_records_ - 1)) --num_records_;
  if (num_records_ == 0 && whole > 1 && step(0) != Step(0))
    throw Error::make(Fault::corrupt, "{}: all of its records fail their check", path_)
        .advise("it is damaged, or another version wrote it; without it only losses and checkpoints can be compared");
}

const uint64_t* FingerprintReader::words(size_t record) const {
  return reinterpret_cast<const uint64_t*>(base_ + records_at_) + record * record_words(names_.size());
}

std::string_view FingerprintReader::bytes(size_t record) const {
  return {reinterpret_cast<const char*>(words(record)), record_words(names_.size()) * sizeof(uint64_t)};
}

Step FingerprintReader::step(size_t record) const { return Step(static_cast<int64_t>(*words(record))); }

std::span<const uint64_t> FingerprintReader::digests(size_t record) const { return {words(record) + 1, names_.size()}; }

bool FingerprintReader::intact(size_t record) const {
  return words(record)[names_.size() + 1] == check_of(words(record), names_.size());
}

std::optional<size_t> FingerprintReader::find(Step wanted) const {
  size_t low = 0, high = num_records_;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (step(middle) < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == num_records_ || step(low) != wanted) return std::nullopt;
  return low;
}

}  // namespace estrain::record
