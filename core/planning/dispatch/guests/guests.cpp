// Gives guests free devices, else a device of a job. Says which guest must leave, and why.

#include <fmt/format.h>

#include <algorithm>

#include "core/planning/dispatch/homes.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/targets.h"
#include "core/planning/dispatch/turn.h"

namespace estrain::dispatch {
namespace {

constexpr int64_t kLooksAlone = 3;  // of a job, before a guest comes

bool is_for_guests(const std::string& group) { return type_in(group) != "cuda"; }

bool may_use(const Job& guest, const std::string& group) {
  const bool may_change = guest.is_type_open && (guest.starts == 0 || guest.request.mixes_types);
  return is_for_guests(group) && (may_change || type_in(group) == guest.request.type);
}

bool is_known_alone(const Job& host) { return host.company.looks >= kLooksAlone; }

bool are_apart(const Job& guest, JobId host) {
  return std::ranges::find(guest.not_beside, host) != guest.not_beside.end();
}

bool welcomes(const State& state, const Job& host, const Job& guest) {
  return host.phase == Phase::running && !host.is_unwanted && !host.is_leaderless && !host.request.alone &&
         host.target == held_by(state, host.id) && is_known_alone(host) && !are_apart(guest, host.id);
}

// Why the guest must leave the device. Empty: the guest may stay.
std::string why_to_leave(const State& state, const Slot& slot, const Job& guest) {
  if (slot.state != Slot::State::present) return "its device is asked back";
  if (slot.holder != guest.beside) return fmt::format("job {} has its device now", slot.holder);
  if (!is_open_to(state, guest, slot.host())) return "another job is to be alone on the host";
  if (!has_memory_for_guest(state, guest, slot.host())) return "another job needs the memory";
  if (guest.beside == 0) return "";
  if (are_apart(guest, guest.beside)) return fmt::format("job {} took too long beside it", guest.beside);
  if (!is_known_alone(state.jobs.at(guest.beside)))
    return fmt::format("job {} is measured anew, on other devices or among other jobs", guest.beside);
  return "";
}

// A device of the same name is the same to the guest's launcher.
bool change_seats(State& state, Slot& from, const Job& guest) {
  for (Slot& other : state.slots) {
    if (other.name != from.name || !may_have(other, guest) || !why_to_leave(state, other, guest).empty()) continue;
    from.guest = 0;
    other.guest = guest.id;
    return true;
  }
  return false;
}

// Finds seats for guests: devices without a job, and without another guest.
class Seating {
 public:
  explicit Seating(DispatchTurn& turn) : turn_(turn), state_(turn.state) {}

  void seat(Job& guest) {
    if (guest.phase == Phase::waiting) return find(guest);
    if (guest.phase != Phase::running || guest.target.empty() || guest.target != held_by(state_, guest.id)) return;
    if (guest.beside != 0) return move(guest);
    grow(guest);
  }

 private:
  void find(Job& guest) {
    guest.target.clear();
    guest.beside = 0;
    const std::optional<std::string> group = roomiest(guest);
    if (group) {
      take(guest, *group, std::min(spare(*group), most_in_memory(guest, *group)));
      guest.reason = "on free devices, as a guest";
    } else if (const Slot* slot = beside_somebody(guest)) {
      guest.beside = slot->holder;
      ++promised_beside_[slot->holder];
      take(guest, slot->group(), 1);
      guest.reason = fmt::format("beside job {}, as a guest", guest.beside);
    } else {
      guest.reason = "waits for a free device, or a job that it may be beside";
    }
  }

  // To free devices. The same launcher stays if it knows the device by the same name.
  void move(Job& guest) {
    const std::optional<std::string> group = roomiest(guest);
    if (!group) return;
    const JobId host = std::exchange(guest.beside, 0);
    Slot* from = slots_of(state_, guest.id).front();
    if (spare(from->group()) > 0 && change_seats(state_, *from, guest)) {
      guest.reason = "has moved to a free device";
      turn_.act(note_of(guest, "devices", guest.reason));
      return watch_anew(state_.jobs.at(host));
    }
    guest.beside = host;
    guest.target.clear();
    guest.reason = "stops to move to a free device";
  }

  void grow(Job& guest) {
    const std::string group = guest.target.begin()->first;
    const int64_t most_here = std::min(most(guest), most_in_memory(guest, group));
    const int64_t more = std::min(spare(group), most_here - guest.targeted());
    if (turn_.now < guest.no_growth_before || more <= 0) return;
    guest.target[group] += more;
    promised_[group] += more;
    guest.reason = "on more free devices, as a guest";
  }

  static int64_t most(const Job& guest) {
    return std::max<int64_t>(1, std::min(guest.request.most, guest.request.ests));
  }

  void take(Job& guest, const std::string& group, int64_t devices) {
    guest.request.type = type_in(group);
    guest.target[group] = std::min(devices, most(guest));
    guest.seated = turn_.now;
    if (guest.beside == 0) promised_[group] += guest.target[group];
  }

  // Devices of the group that no job has or is meant to have, and no guest.
  int64_t spare(const std::string& group) const {
    int64_t free = 0, with_guest = 0;
    for (const Slot& slot : state_.slots) {
      if (slot.state != Slot::State::present || slot.holder != 0 || slot.group() != group) continue;
      ++(slot.guest == 0 ? free : with_guest);
    }
    const int64_t unmeant = capacity(state_, group) - targeted_of(state_, group) - with_guest;
    const auto promised = promised_.find(group);
    return std::min(free, unmeant) - (promised == promised_.end() ? 0 : promised->second);
  }

  // Returns the most workers of the guest that the memory of the group's host has room for now.
  int64_t most_in_memory(const Job& guest, const std::string& group) const {
    const int64_t on_empty = std::min(most(guest), workers_on_empty(state_, guest, host_in(group)));
    for (int64_t workers = on_empty; workers > 0; --workers)
      if (has_memory_for(state_, guest, {{group, workers}})) return workers;
    return 0;
  }

  std::optional<std::string> roomiest(const Job& guest) const {
    std::optional<std::string> best;
    for (const std::string& group : groups_of(state_)) {
      const bool is_room = may_use(guest, group) && spare(group) > 0 && is_open_to(state_, guest, host_in(group)) &&
                           most_in_memory(guest, group) > 0;
      if (is_room && (!best || spare(group) > spare(*best))) best = group;
    }
    return best;
  }

  // Beside the job with fewest guests.
  const Slot* beside_somebody(const Job& guest) const {
    std::map<JobId, int64_t> guests = promised_beside_, room;
    for (const Slot& slot : state_.slots) {
      if (slot.holder != 0) ++(slot.guest != 0 ? guests : room)[slot.holder];
    }
    const Slot* best = nullptr;
    for (const Slot& slot : state_.slots) {
      if (slot.holder == 0 || slot.guest != 0 || slot.state != Slot::State::present || !may_use(guest, slot.group()))
        continue;
      const auto promised = promised_beside_.find(slot.holder);
      if (promised != promised_beside_.end() && promised->second >= room[slot.holder]) continue;
      if (!welcomes(state_, state_.jobs.at(slot.holder), guest) || most_in_memory(guest, slot.group()) < 1) continue;
      if (best == nullptr || guests[slot.holder] < guests[best->holder]) best = &slot;
    }
    return best;
  }

  DispatchTurn& turn_;
  State& state_;
  std::map<std::string, int64_t> promised_;   // free devices, by group, at this decision
  std::map<JobId, int64_t> promised_beside_;  // devices, by their holder
};

// The job beside the guest has let go of the device.
void stay_alone(DispatchTurn& turn, Job& guest) {
  if (guest.beside == 0) return;
  const std::vector<Slot*> slots = slots_of(turn.state, guest.id);
  if (std::ranges::any_of(slots, [](const Slot* slot) { return slot->holder != 0; })) return;
  guest.beside = 0;
  guest.reason = "on free devices, as a guest";
  turn.act(note_of(guest, "devices", guest.reason));
}

}  // namespace

void seat_guests(DispatchTurn& turn) {
  Seating seating(turn);
  for (Job* guest : queue(turn.state, turn.now, true)) {
    const Target before = guest->target;
    seating.seat(*guest);
    if (guest->target != before) turn.act(note_of(*guest, "devices", guest->reason));
  }
}

void show_guests_out(DispatchTurn& turn) {
  State& state = turn.state;
  for (auto& [id, guest] : state.jobs) {
    if (!guest.request.background || !is_up(guest.phase) || guest.target.empty()) continue;
    stay_alone(turn, guest);
    int64_t lost = 0;
    std::string why;
    for (Slot* slot : slots_of(state, id)) {
      const std::string reason = why_to_leave(state, *slot, guest);
      if (reason.empty() || change_seats(state, *slot, guest)) continue;
      ++lost;
      why = reason;
    }
    const int64_t kept = std::ssize(slots_of(state, id)) - lost;
    if (lost == 0 || guest.targeted() <= kept) continue;
    if (kept == 0) {
      guest.target.clear();
    } else {
      guest.target.begin()->second = kept;
    }
    guest.reason = why;
    turn.act(note_of(guest, "devices", why));
  }
}

}  // namespace estrain::dispatch
