#include "core/state/comm/meetings/barrier.h"

#include <immintrin.h>

#include "core/state/comm/memory/futex.h"

namespace estrain::comm {

bool Barrier::wait(uint32_t generation) {
  for (int spin = 0; spin < spins_; ++spin) {
    if (words_.generation.load(std::memory_order_acquire) != generation) return true;
    _mm_pause();
  }
  while (words_.generation.load(std::memory_order_acquire) == generation) {
    if (abort_.load() != 0) return false;
    futex_wait(words_.generation, generation, glance);
  }
  return true;
}

std::array<BarrierWords*, 7> MeetingPlaces::all() {
  return {&words_.gathered,         &words_.summed, &words_.multiplied, &words_.finished,
          &words_.evaluated_by_all, &words_.saved,  &words_.audited};
}

void MeetingPlaces::open() {
  words_.exchange_ready.store(0);
  words_.exchange_asked.store(0);
  for (BarrierWords* meeting : all()) meeting->arrived.store(0);
  clear_claims();
}

void MeetingPlaces::wake_all() {
  for (BarrierWords* meeting : all()) futex_wake_all(meeting->generation);
  futex_wake_all(words_.exchange_ready);
  futex_wake_all(words_.next_exchange_ready);
}

void MeetingPlaces::clear_claims() {
  words_.next_sum.store(0);
  words_.next_update.store(0);
  words_.next_factor.store(0);
}

void MeetingPlaces::set_exchange_id(const ExchangeId& id) {
  words_.exchange_id = id;
  words_.exchange_ready.store(1);
  futex_wake_all(words_.exchange_ready);
}

bool MeetingPlaces::wait_exchange_id(ExchangeId* id) {
  while (words_.exchange_ready.load() == 0) {
    if (words_.abort.load() != 0) return false;
    futex_wait(words_.exchange_ready, 0, glance);
  }
  *id = words_.exchange_id;
  return true;
}

void MeetingPlaces::ask_exchange(int64_t ticket) {
  words_.exchange_asked.store(static_cast<uint32_t>(ticket));
  futex_wake_all(words_.next_exchange_ready);
}

// A reader of an earlier id sees that the id changes.
void MeetingPlaces::set_next_exchange_id(int64_t ticket, const ExchangeId& id) {
  words_.next_exchange_ready.store(0);
  words_.next_exchange_id = id;
  words_.next_exchange_ready.store(static_cast<uint32_t>(ticket));
  futex_wake_all(words_.next_exchange_ready);
}

bool MeetingPlaces::wait_next_exchange_id(int64_t ticket, ExchangeId* id) {
  const auto own = static_cast<uint32_t>(ticket);
  for (;;) {
    if (words_.abort.load() != 0 || words_.exchange_asked.load() != own) return false;
    const uint32_t ready = words_.next_exchange_ready.load();
    if (ready == own) break;
    futex_wait(words_.next_exchange_ready, ready, glance);
  }
  *id = words_.next_exchange_id;
  return words_.next_exchange_ready.load() == own;
}

}  // namespace estrain::comm
