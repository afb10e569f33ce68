#include "core/state/comm/meetings/meeting_places.h"

#include "core/state/comm/memory/futex.h"

namespace estrain::comm {
std::array<BarrierWords*, 6> MeetingPlaces::all() {
  return {&words_.gathered, &words_.summed, &words_.finished, &words_.evaluated_by_all, &words_.saved, &words_.audited};
}

void MeetingPlaces::open() {
  words_.exchange_ready.store(0);
  for (BarrierWords* meeting : all()) meeting->arrived.store(0);
  clear_claims();
}

void MeetingPlaces::wake_all() {
  for (BarrierWords* meeting : all()) futex_wake_all(meeting->generation);
  futex_wake_all(words_.exchange_ready);
}

void MeetingPlaces::clear_claims() {
  words_.next_sum.store(0);
  words_.next_update.store(0);
}

void MeetingPlaces::set_exchange_id(const ExchangeId& id) {
  words_.exchange_id = id;
  words_.exchange_ready.store(1);
  futex_wake_all(words_.exchange_ready);
}

bool MeetingPlaces::wait_exchange_id(ExchangeId* id) {
  while (words_.exchange_ready.load() == 0) {
    if (words_.abort.load() != 0) return false;
    futex_wait(words_.exchange_ready, 0, glance_ms);
  }
  *id = words_.exchange_id;
  return true;
}

}  // namespace estrain::comm
