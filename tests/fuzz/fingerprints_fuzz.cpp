// The file `fingerprints`. If the last byte is odd, the checksums of all records are corrected first. A record reported
// as intact can be read; a writer that continues an accepted file leaves a file with what it wrote.
#include <algorithm>
#include <cstring>

#include "core/state/record/logs/fingerprints.h"
#include "kernels/digest.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {
namespace {

uint64_t read_all(const record::FingerprintReader& reader) {
  uint64_t sum = 0;
  for (size_t i = 0; i < reader.size(); ++i) {
    reader.intact(i);
    for (const uint64_t digest : reader.digests(i)) sum += digest;
    if (reader.find(reader.step(i))) sum += 1;
  }
  return sum;
}

void go_on(const std::string& path, const std::vector<std::string>& names, Step last) {
  record::StepRecord next;
  next.step = last.next();
  next.digests.assign(names.size(), 0x1234);
  if (!accepts([&] { record::FingerprintWriter(path, names, last).append({&next, 1}); })) return;
  const record::FingerprintReader reader(path);
  require(reader.size() > 0 && reader.step(reader.size() - 1) == next.step, "what was written is the last record");
  require(reader.intact(reader.size() - 1), "and intact");
}

// core/state/record/FORMAT.md: 8 bytes magic, number of names, bytes of names; names; a record: step, digests, check.
std::string with_checks(std::string bytes) {
  if (bytes.size() < 24) return bytes;
  uint64_t head[3];
  std::memcpy(head, bytes.data(), sizeof head);
  if (head[1] > bytes.size() || head[2] > bytes.size()) return bytes;
  std::vector<uint64_t> record(head[1] + 2);
  const size_t size = record.size() * 8;
  for (size_t at = 24 + head[2]; at + size <= bytes.size(); at += size) {
    std::memcpy(record.data(), bytes.data() + at, size);
    record.back() = ~kernels::digest(record.data(), size - 8);
    std::memcpy(bytes.data() + at, record.data(), size);
  }
  return bytes;
}

void read(std::string_view bytes) {
  static const MemoryFile file;
  const bool fix = !bytes.empty() && (bytes.back() & 1) != 0;
  file.set(fix ? with_checks(std::string(bytes)) : std::string(bytes));
  std::vector<std::string> names;
  Step last;
  if (!accepts([&] {
        const record::FingerprintReader reader(file.path());
        static volatile uint64_t sink;
        sink = read_all(reader);
        names = reader.names();
        if (reader.size() > 0) last = reader.step(reader.size() / 2);
      }))
    return;
  if (last.value >= 0 && last.value < INT64_MAX) go_on(file.path(), names, last);
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estrain::fuzz::read(estrain::fuzz::text_of(data, size));
  return 0;
}
