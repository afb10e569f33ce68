// Devices join the pool, are asked back, and are lent again.

#include <algorithm>

#include "core/base/error.h"
#include "core/planning/dispatch/dispatcher.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/targets.h"

namespace estrain::dispatch {

// Takes free devices of a name first, then devices whose holder gives devices back anyway, then devices of the holder
// with most devices.
void Dispatcher::withdraw(const Withdrawal& withdrawal, double now) {
  if (!(withdrawal.within > 0)) throw Error(Fault::usage, "a time within which the devices are to be free is wanted");
  std::map<std::string, int64_t> names;
  for (const std::string& name : withdrawal.names) ++names[name];
  for (const auto& [name, count] : names) {
    const auto there = std::ranges::count_if(state_.slots, [&wanted = name](const Slot& slot) {
      return slot.name == wanted && slot.state == Slot::State::present;
    });
    if (there < count) {
      throw Error::make(Fault::usage, "the pool has {} of {}, {} are asked back", there, name, count)
          .advise("see `estrain pool status`");
    }
  }
  account(state_, now);
  Owed owed{{}, withdrawal.names, now, withdrawal.within, withdrawal.client};
  for (const std::string& name : withdrawal.names) {
    Slot* best = nullptr;
    std::pair<int, int64_t> worth;
    for (Slot& slot : state_.slots) {
      if (slot.name != name || slot.state != Slot::State::present) continue;
      const Job* holder = slot.holder == 0 ? nullptr : &state_.jobs[slot.holder];
      const int64_t has = holder == nullptr ? 0 : held(state_, holder->id, slot.group());
      const bool gives_back = holder != nullptr && has > wanted(*holder, slot.group());
      const bool settled = holder != nullptr && holder->phase == Phase::running;
      const int rank = holder == nullptr ? 3 : gives_back ? 2 : settled ? 1 : 0;
      if (best == nullptr || std::pair(rank, has) > worth) best = &slot, worth = {rank, has};
    }
    if (best->holder != 0) {
      Job& holder = state_.jobs[best->holder];
      if (held(state_, holder.id, best->group()) <= wanted(holder, best->group())) {
        lessen(holder, best->group());
        ++holder.owed;
        holder.reason = "somebody of higher right takes a device";
      }
    }
    put(state_, *best, Slot::State::leaving);
    best->for_good = withdrawal.for_good;
    owed.slots.push_back(best->id);
  }
  underway_.owed.push_back(std::move(owed));
  actions_.emplace_back(
      Note{0, withdrawal.for_good ? "remove" : "take", static_cast<int64_t>(withdrawal.names.size()),
           withdrawal.within == kNoHurry ? "without haste" : fmt::format("within {:.3g} s", withdrawal.within),
           withdrawal.names});
  make_fit(state_);
  // Before the policy is asked: no client waits for the policy's preferences.
  bring_about(state_, settings_, underway_, actions_, now);
  wake(now);
}

void Dispatcher::lend(const std::vector<std::string>& names, double now) {
  account(state_, now);
  std::vector<Slot*> chosen;
  for (const std::string& name : names) {
    const auto at = std::ranges::find_if(state_.slots, [&](Slot& slot) {
      return slot.name == name && slot.state == Slot::State::away && std::ranges::find(chosen, &slot) == chosen.end();
    });
    if (at == state_.slots.end()) {
      throw Error::make(Fault::usage, "no device {} of the pool is away: there is nothing to lend", name)
          .advise("`estrain pool take` takes one; `estrain pool devices add` adds one that the pool does not know");
    }
    chosen.push_back(&*at);
  }
  for (Slot* slot : chosen) put(state_, *slot, Slot::State::present);
  actions_.emplace_back(Note{0, "lend", static_cast<int64_t>(names.size()), "devices are back", names});
  wake(now);
}

void Dispatcher::add_devices(const std::vector<std::string>& names, double now) {
  account(state_, now);
  for (const std::string& name : names) {
    const bool is_there = std::ranges::find(state_.slots, name, &Slot::name) != state_.slots.end();
    if (Slot{0, name}.type() == "cuda" && (is_there || std::ranges::count(names, name) > 1))
      throw Error::make(Fault::usage, "the pool can have {} once", name);
  }
  const std::vector<std::string> types = types_with(state_, names);
  require_known(policy_, types);
  if (types.size() > scheduling::Cluster::kMostTypes) {
    throw Error::make(Fault::infeasible, "{} types of devices are too many: a pool has {} at most", types.size(),
                      scheduling::Cluster::kMostTypes);
  }
  for (const std::string& name : names)
    state_.slots.push_back({++state_.last_slot, name, Slot::State::present, false, 0, now});
  actions_.emplace_back(Note{0, "add", static_cast<int64_t>(names.size()), "devices were added", names});
  wake(now);
}

}  // namespace estrain::dispatch
