#include "core/state/comm/memory/record_ring.h"

#include <algorithm>
#include <cstring>

#include "core/state/comm/memory/futex.h"

namespace estrain::comm {
// The header stands at the start of the mapping.
std::byte* RecordRing::start_of(uint32_t sequence) {
  return reinterpret_cast<std::byte*>(&words_) + words_.ring + (sequence % words_.ring_records) * words_.record_bytes;
}

RecordView RecordRing::at(uint32_t sequence) { return view_record(start_of(sequence), words_.ests); }

std::optional<RecordView> RecordRing::newest() {
  const uint32_t published = this->published();
  return published == 0 ? std::nullopt : std::optional(at(published - 1));
}

std::optional<RecordView> RecordRing::find(Step step) {
  const uint32_t published = this->published();
  const uint64_t half = std::min<uint64_t>(published, words_.ring_records / 2);
  for (uint32_t back = 1; back <= half; ++back) {
    const RecordView record = at(published - back);
    if (record.head->kind == RecordKind::step && record.head->step == step) return record;
  }
  return std::nullopt;
}

bool RecordRing::publish() {
  const uint32_t next = published() + 1;
  for (;;) {
    const uint32_t drained = this->drained();
    if (next - drained < words_.ring_records) break;
    if (words_.abort.load() != 0) return false;
    futex_wait(words_.drained, drained, glance);
  }
  std::memset(start_of(next), 0, words_.record_bytes);
  words_.published.store(next);
  return true;
}

void RecordRing::clear_pending() { std::memset(start_of(published()), 0, words_.record_bytes); }

void RecordRing::drain_to(uint32_t sequence) {
  words_.drained.store(sequence);
  futex_wake_all(words_.drained);
}

}  // namespace estrain::comm
