#include "core/comm/step_record.h"

#include <cstring>

#include "core/comm/futex.h"

namespace estrain::comm {
namespace {

constexpr uint64_t round_up(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

uint64_t losses_bytes(int64_t ests) { return round_up(static_cast<uint64_t>(ests) * sizeof(float)); }

}  // namespace

uint64_t record_bytes(int64_t ests, int64_t digests) {
  return round_up(sizeof(RecordHead)) + losses_bytes(ests) +
         round_up(static_cast<uint64_t>(digests) * sizeof(uint64_t));
}

void mark_suspect(RecordHead& head, Nonfinite::Where where) {
  std::atomic_ref<Nonfinite::Where>(head.suspect).store(where);
}

RecordView view_record(JobMemory& memory, uint32_t sequence) {
  std::byte* start = memory.record(sequence);
  std::byte* losses = start + round_up(sizeof(RecordHead));
  std::byte* digests = losses + losses_bytes(memory.header().ests);
  return {reinterpret_cast<RecordHead*>(start), reinterpret_cast<float*>(losses),
          reinterpret_cast<std::atomic<uint64_t>*>(digests)};
}

RecordView pending_record(JobMemory& memory) { return view_record(memory, memory.header().published.load()); }

bool publish_record(JobMemory& memory) {
  MemoryHeader& header = memory.header();
  const uint32_t next = header.published.load() + 1;
  for (;;) {
    const uint32_t drained = header.drained.load();
    if (next - drained < header.ring_records) break;
    if (header.abort.load() != 0) return false;
    futex_wait(header.drained, drained, 100);
  }
  std::memset(memory.record(next), 0, header.record_bytes);
  header.published.store(next);
  return true;
}

}  // namespace estrain::comm
