#include "core/planning/dispatch/slots.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"

namespace estrain::dispatch {
namespace {

double decayed(const Usage& usage, double now) {
  return usage.device_seconds * std::exp2(-std::max(0.0, now - usage.at) / Usage::kHalfLife);
}

}  // namespace

Slot* slot(State& state, SlotId id) {
  const auto at = std::ranges::find(state.slots, id, &Slot::id);
  return at == state.slots.end() ? nullptr : &*at;
}

bool is_guest(const State& state, JobId id) {
  const auto job = state.jobs.find(id);
  return job != state.jobs.end() && job->second.request.background;
}

bool may_have(const Slot& slot, const Job& job) {
  if (slot.state != Slot::State::present) return false;
  return job.request.background ? slot.guest == 0 && slot.holder == job.beside : slot.holder == 0;
}

std::vector<Slot*> slots_of(State& state, JobId id) {
  std::vector<Slot*> slots;
  for (Slot& slot : state.slots) {
    if (is_on(slot, id)) slots.push_back(&slot);
  }
  return slots;
}

std::vector<std::string> names_of(const State& state, JobId id) {
  std::vector<std::string> names;
  for (const Slot& slot : state.slots) {
    if (is_on(slot, id)) names.push_back(slot.name);
  }
  return names;
}

int64_t capacity(const State& state, const std::string& group) {
  return std::ranges::count_if(
      state.slots, [&](const Slot& slot) { return slot.state == Slot::State::present && slot.group() == group; });
}

int64_t free_slots(const State& state, const std::string& group) {
  return std::ranges::count_if(state.slots, [&](const Slot& slot) {
    return slot.state == Slot::State::present && slot.holder == 0 && slot.group() == group;
  });
}

int64_t free_slots(const State& state, const std::string& group, const Job& job) {
  return std::ranges::count_if(state.slots,
                               [&](const Slot& slot) { return slot.group() == group && may_have(slot, job); });
}

int64_t held(const State& state, JobId id, const std::string& group) {
  return std::ranges::count_if(state.slots, [&](const Slot& slot) { return is_on(slot, id) && slot.group() == group; });
}

int64_t held_in_all(const State& state, JobId id) {
  return std::ranges::count_if(state.slots, [&](const Slot& slot) { return is_on(slot, id); });
}

Target held_by(const State& state, JobId id) {
  Target held;
  for (const Slot& slot : state.slots) {
    if (is_on(slot, id)) ++held[slot.group()];
  }
  return held;
}

AllHeld all_held(const State& state) {
  AllHeld held;
  for (const Slot& slot : state.slots) {
    if (slot.holder != 0) ++held[slot.holder][slot.group()];
    if (slot.guest != 0) ++held[slot.guest][slot.group()];
  }
  return held;
}

std::vector<std::string> groups_of(const State& state) {
  std::vector<std::string> groups;
  for (const Slot& slot : state.slots) {
    if (slot.state == Slot::State::present && std::ranges::find(groups, slot.group()) == groups.end())
      groups.push_back(slot.group());
  }
  return groups;
}

void give(const State& state, Slot& slot, JobId holder) {
  if (is_guest(state, holder)) {
    slot.guest = holder;
    return;
  }
  if (slot.holder != holder) slot.since = state.seen;
  slot.holder = holder;
}

void put(const State& state, Slot& slot, Slot::State where) {
  if (slot.state != where) slot.since = state.seen;
  slot.state = where;
}

void free_slots_of(State& state, JobId id) {
  for (Slot* slot : slots_of(state, id)) {
    if (slot->guest == id) {
      slot->guest = 0;
    } else {
      give(state, *slot, 0);
    }
  }
}

// Gives the job devices of these names and no more. A device that the pool does not have, or has given to another job,
// is not the pool's and is asked back.
void hold(State& state, JobId id, const std::vector<std::string>& names) {
  std::vector<SlotId> before;
  std::map<SlotId, double> since;
  for (const Slot* slot : slots_of(state, id)) {
    before.push_back(slot->id);
    since[slot->id] = slot->since;
  }
  const Job& job = state.jobs.at(id);
  // Devices that a client waits for go first; of a guest, those that another job has by now, too.
  std::ranges::stable_sort(before, {}, [&](SlotId one) {
    const Slot& own = *slot(state, one);
    return own.state != Slot::State::present || (own.guest == id && own.holder != job.beside);
  });
  free_slots_of(state, id);
  for (const std::string& name : names) {
    Slot* chosen = nullptr;
    for (const SlotId one : before) {
      Slot* own = slot(state, one);
      const bool is_taken = job.request.background ? own->guest != 0 : own->holder != 0;
      if (own->name == name && !is_taken && chosen == nullptr) chosen = own;
    }
    for (Slot& other : state.slots) {
      if (other.name == name && may_have(other, job) && chosen == nullptr) chosen = &other;
    }
    if (chosen == nullptr) {
      chosen = &state.slots.emplace_back();
      *chosen = {++state.last_slot, name, Slot::State::leaving, true, 0};
    }
    give(state, *chosen, id);
  }
  for (Slot* slot : slots_of(state, id)) {
    if (const auto kept = since.find(slot->id); kept != since.end()) slot->since = kept->second;
  }
}

int64_t checks_at_work(const State& state) {
  const auto is_checked = [](const auto& entry) { return entry.second.phase == Phase::checking; };
  return std::min(kChecksAtOnce, static_cast<int64_t>(std::ranges::count_if(state.jobs, is_checked)));
}

// Counts device-seconds since the last event.
void follow_clock(State& state, double seconds) {
  const auto move = [seconds](double& moment) {
    if (moment > 0) moment += seconds;  // 0: no moment
  };
  for (Slot& slot : state.slots) move(slot.since);
  for (auto& [id, job] : state.jobs) {
    if (is_over(job.phase)) continue;
    for (double* moment : {&job.not_before, &job.no_growth_before, &job.batch.not_before, &job.memory.waits_since,
                           &job.seen_at, &job.seated, &job.company.window_from})
      move(*moment);
  }
  for (auto& [id, since] : state.underway.asked_to_let_go) move(since);
  for (Owed& owed : state.underway.owed) move(owed.asked);
  for (auto& [user, usage] : state.usage) move(usage.at);
}

void account(State& state, double now) {
  const double passed = now - state.seen;
  if (passed < 0) follow_clock(state, passed);
  if (passed > 0) {
    state.in_use[""] += passed * static_cast<double>(checks_at_work(state));
    std::map<JobId, double> held;
    for (const Slot& slot : state.slots) {
      if (slot.guest != 0) ++held[slot.guest];
      if (slot.holder == 0) continue;
      ++held[slot.holder];
      state.in_use[slot.host()] += passed;
    }
    for (const auto& [id, devices] : held) {
      Job& job = state.jobs[id];
      job.attained += passed * devices;
      job.held += passed;
      if (job.request.background) continue;
      Usage& usage = state.usage[job.request.user];
      usage = {decayed(usage, now) + passed * devices, now};
    }
  }
  state.seen = now;
}

double in_use_on(const State& state, const std::string& host) {
  const auto at = state.in_use.find(host);
  return at == state.in_use.end() ? 0 : at->second;
}

std::vector<std::string> types_with(const State& state, const std::vector<std::string>& names) {
  std::vector<std::string> types;
  for (const Slot& slot : state.slots) types.push_back(slot.type());
  for (const std::string& name : names) types.push_back(Slot{0, name}.type());
  std::ranges::sort(types);
  types.erase(std::unique(types.begin(), types.end()), types.end());
  return types;
}

void require_known(const scheduling::PolicyChoice& choice, const std::vector<std::string>& types) {
  if (types.size() < 2 || choice.policy->knows_types()) return;
  throw Error::make(Fault::infeasible, "policy {} knows devices of one type only, not {}", choice.text,
                    fmt::join(types, " and "))
      .advise("take another policy, such as estrain, or devices of one type");
}

}  // namespace estrain::dispatch
