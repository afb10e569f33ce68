#include "core/state/comm/records/step_record.h"

#include <bit>

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

void put_float(std::atomic<uint64_t>& word, float value) { word.store(std::bit_cast<uint32_t>(value)); }

float float_of_word(const std::atomic<uint64_t>& word) {
  return std::bit_cast<float>(static_cast<uint32_t>(word.load()));
}

RecordView view_record(std::byte* start, int64_t ests) {
  std::byte* losses = start + round_up(sizeof(RecordHead));
  std::byte* digests = losses + losses_bytes(ests);
  return {reinterpret_cast<RecordHead*>(start), reinterpret_cast<float*>(losses),
          reinterpret_cast<std::atomic<uint64_t>*>(digests)};
}

}  // namespace estrain::comm
