#include <fmt/format.h>

#include <algorithm>

#include "core/planning/dispatch/homes.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/targets.h"
#include "core/planning/dispatch/turn.h"

namespace estrain::dispatch {
namespace {

constexpr double kAsked = 0.8;   // the part of the time left in which a job may let go by itself
constexpr double kKilled = 0.9;  // the part of the time after which the job is killed

// A Change moves a job from the present devices to the target.
class Change {
 public:
  explicit Change(DispatchTurn& turn)
      : turn_(turn), state_(turn.state), settings_(turn.settings), underway_(turn.state.underway) {
    for (Slot& slot : state_.slots) {
      if (slot.holder != 0) held_[slot.holder].push_back(&slot);
      if (slot.guest != 0) held_[slot.guest].push_back(&slot);
    }
  }

  void bring_about(Job& job) {
    const double now = turn_.now;
    const Owed* owed = most_urgent(job.id);
    const auto asked = underway_.asked_to_let_go.find(job.id);
    const bool is_deaf = asked != underway_.asked_to_let_go.end() && now >= asked->second + patience_with(job);
    const bool is_late = owed != nullptr && now >= owed->asked + kKilled * owed->within;
    if ((is_late || is_deaf) && underway_.killed.insert(job.id).second) {
      turn_.act(KillJob{job.id});
      return note(job, "killed",
                  is_late ? "its devices must be free now, and it has not let go of them" : "it does not answer");
    }
    const bool is_hurried = owed != nullptr;
    if (job.is_leaderless) return;
    const bool is_to_end = job.is_unwanted || job.targeted() == 0;
    switch (job.phase) {
      case Phase::waiting:
        if (!is_to_end && now >= job.not_before) start(job);
        return;
      case Phase::starting:
        if (is_to_end || is_hurried || (job.request.background && has_too_many(job))) stop(job);
        return;
      case Phase::running:
        if (is_to_end) return stop(job);
        if (!can_lead(job.home, job.target)) {
          job.reason = "keeps its devices";
          return stop(job);
        }
        if (!is_hurried && now >= job.no_growth_before && exchange(job)) return;
        if (has_too_many(job)) return shrink(job);
        if (now >= job.no_growth_before) grow(job);
        if (job.phase == Phase::running && job.batch.wanted != 0) change_batch(job);
        return;
      case Phase::changing:
        // The job is to give all devices back, in a hurry: the stop replaces the request under way.
        if ((is_hurried || job.request.background) && is_to_end) return stop(job);
        if (is_to_let_go(job)) {
          underway_.asked_to_let_go.try_emplace(job.id, now);
        } else {
          underway_.asked_to_let_go.erase(job.id);
        }
        return;
      default:
        return;
    }
  }

 private:
  // The job's devices at the beginning of the job's turn: meanwhile jobs get free devices only.
  const std::vector<Slot*>& slots_held_by(JobId id) const {
    static const std::vector<Slot*> none;
    const auto at = held_.find(id);
    return at == held_.end() ? none : at->second;
  }

  Target held_by(JobId id) const {
    Target held;
    for (const Slot* slot : slots_held_by(id)) ++held[slot->group()];
    return held;
  }

  static Target together(Target one, const Target& other) {
    for (const auto& [group, count] : other) one[group] += count;
    return one;
  }

  // Returns whether the job has too many devices of a group, or a device asked back.
  bool has_too_many(const Job& job) const {
    return std::ranges::any_of(slots_held_by(job.id),
                               [](const Slot* slot) { return slot->state == Slot::State::leaving; }) ||
           std::ranges::any_of(held_by(job.id),
                               [&](const auto& entry) { return entry.second > wanted(job, entry.first); });
  }

  // Returns whether devices of the job, which changes, are to be free: by the request under way, or by its target.
  bool is_to_let_go(const Job& job) const {
    if (job.is_unwanted || job.targeted() == 0 || has_too_many(job)) return true;
    const auto asked = underway_.asked.find(job.id);
    return asked != underway_.asked.end() && std::ranges::any_of(asked->second.had, [&](const auto& entry) {
             const auto then = asked->second.then.find(entry.first);
             return entry.second > (then == asked->second.then.end() ? 0 : then->second);
           });
  }

  // Returns the most urgent request for one of the job's devices. Null: no request, or no request with a time limit.
  const Owed* most_urgent(JobId id) const {
    const Owed* first = nullptr;
    for (const Owed& owed : underway_.owed) {
      const bool concerns = std::ranges::any_of(slots_held_by(id), [&](const Slot* slot) {
        return std::ranges::find(owed.slots, slot->id) != owed.slots.end();
      });
      if (!concerns || owed.within == kNoHurry) continue;
      if (first == nullptr || owed.deadline() < first->deadline()) first = &owed;
    }
    return first;
  }

  double patience_with(const Job& job) const {
    return job.request.background ? settings_.guest_patience : settings_.patience;
  }

  double time_to_let_go(JobId id) const {
    const Owed* owed = most_urgent(id);
    if (owed == nullptr) return is_guest(state_, id) ? settings_.guest_within : settings_.within;
    return std::max(0.05, kAsked * (owed->deadline() - turn_.now));
  }

  // `meanwhile`: the devices that the job has at once on its way to the target.
  bool has_memory(const Job& job, const Target& meanwhile) const {
    return gpus_hold(state_, job, job.target) && has_memory_for(state_, job, meanwhile);
  }

  void start(Job& job) {
    for (const auto& [group, count] : job.target) {
      if (free_slots(state_, group, job) < count) return;
    }
    if (!has_memory(job, job.target)) return;
    job.memory.waits_since = 0;
    give_free(job, job.target);
    job.phase = Phase::starting;
    if (!job.started) job.started = state_.seen;
    ++job.starts;
    job.home = home_for(job.target);
    turn_.act(StartJob{job.id, names_of(state_, job.id), job.home});
    note(job, "started", job.reason);
  }

  void grow(Job& job) {
    Target held = held_by(job.id), missing;
    for (const auto& [group, count] : job.target) {
      const int64_t more = count - held[group];
      if (more <= 0) continue;
      if (more > free_slots(state_, group, job)) return;
      missing[group] = more;
    }
    if (missing.empty() || !has_memory(job, job.target)) return;
    underway_.asked[job.id] = {held_by(job.id), job.target};
    GrowJob action{.job = job.id};
    action.added = give_free(job, std::move(missing));
    action.all = names_of(state_, job.id);
    job.phase = Phase::changing;
    ++job.starts;
    turn_.act(std::move(action));
    note(job, "grows", job.reason);
  }

  // Takes free devices and gives others back in one change, if the job has enough devices. Returns whether it does.
  bool exchange(Job& job) {
    const std::vector<Slot*>& slots = slots_held_by(job.id);
    const auto is_leaving = [](const Slot* slot) { return slot->state == Slot::State::leaving; };
    if (std::ranges::any_of(slots, is_leaving)) return false;
    Target left = job.target;
    GrowJob action{.job = job.id};
    for (const Slot* slot : slots) (left[slot->group()]-- > 0 ? action.all : action.given_back).push_back(slot->name);
    std::erase_if(left, [](const auto& entry) { return entry.second <= 0; });
    const auto is_free = [&](const auto& entry) { return free_slots(state_, entry.first, job) >= entry.second; };
    if (action.given_back.empty() || left.empty() || !std::ranges::all_of(left, is_free)) return false;
    if (!has_memory(job, together(held_by(job.id), left))) return false;
    underway_.asked[job.id] = {held_by(job.id), job.target};
    action.added = give_free(job, left);
    action.all.insert(action.all.end(), action.added.begin(), action.added.end());
    job.phase = Phase::changing;
    ++job.starts;
    turn_.act(std::move(action));
    note(job, "grows", job.reason);
    return true;
  }

  // Gives the job so many free devices of each group. Returns their names. A guest there moves, or leaves.
  std::vector<std::string> give_free(const Job& job, Target missing) {
    std::vector<std::string> given;
    for (Slot& slot : state_.slots) {
      if (!may_have(slot, job) || missing[slot.group()] <= 0) continue;
      give(state_, slot, job.id);
      given.push_back(slot.name);
      --missing[slot.group()];
    }
    return given;
  }

  void change_batch(Job& job) {
    underway_.asked[job.id] = {held_by(job.id), held_by(job.id)};
    job.phase = Phase::changing;
    turn_.act(ChangeBatch{job.id, job.batch.wanted, job.batch.wanted_lr_factor});
    note(job, "batch_asked", fmt::format("mini-batches of {} samples on {} devices", job.batch.wanted, job.targeted()));
  }

  void shrink(Job& job) {
    ShrinkJob action{job.id, {}, time_to_let_go(job.id)};
    std::vector<Slot*> slots = slots_held_by(job.id);
    std::ranges::stable_sort(slots, {}, [](const Slot* slot) { return slot->state == Slot::State::present; });
    Target more, kept = held_by(job.id);
    for (const auto& [group, count] : kept) more[group] = count - wanted(job, group);
    for (const Slot* slot : slots) {
      if (more[slot->group()] <= 0 && slot->state == Slot::State::present) continue;
      --more[slot->group()];
      if (--kept[slot->group()] == 0) kept.erase(slot->group());
      action.given_back.push_back(slot->name);
    }
    if (action.given_back.empty()) return;
    if (action.given_back.size() == slots.size() || !gpus_hold(state_, job, kept)) return stop(job);
    job.phase = Phase::changing;
    ++job.starts;
    turn_.act(std::move(action));
    underway_.asked[job.id] = {held_by(job.id), std::move(kept)};
    note(job, "shrinks", job.reason);
  }

  void stop(Job& job) {
    turn_.act(StopJob{job.id, names_of(state_, job.id), time_to_let_go(job.id)});
    job.phase = Phase::stopping;
    underway_.asked_to_let_go[job.id] = turn_.now;
    note(job, "stops", job.reason);
  }

  void note(const Job& job, std::string what, std::string reason) {
    turn_.act(note_of(job, std::move(what), std::move(reason)));
  }

  DispatchTurn& turn_;
  State& state_;
  const Settings& settings_;
  Underway& underway_;
  std::map<JobId, std::vector<Slot*>> held_;
};

// Jobs that give devices back come first: the devices are free sooner.
void bring_about_all(DispatchTurn& turn, bool guests) {
  State& state = turn.state;
  Change change(turn);
  for (auto& [id, job] : state.jobs) {
    if (is_up(job.phase) && job.request.background == guests) change.bring_about(job);
  }
  const auto is_to_start = [&](const auto& entry) {
    return entry.second.phase == Phase::waiting && !entry.second.target.empty() &&
           entry.second.request.background == guests;
  };
  if (std::ranges::none_of(state.jobs, is_to_start)) return;
  for (Job* job : queue(state, turn.now, guests)) {
    if (job->phase == Phase::waiting) change.bring_about(*job);
  }
}

}  // namespace

// Guests come last: by then all other jobs have taken devices.
void bring_about(DispatchTurn& turn) {
  bring_about_all(turn, false);
  show_guests_out(turn);
  bring_about_all(turn, true);
}

void complete_withdrawals(DispatchTurn& turn) {
  State& state = turn.state;
  std::vector<SlotId> gone;
  for (Slot& slot : state.slots) {
    if (slot.state != Slot::State::leaving || slot.holder != 0 || slot.guest != 0) continue;
    put(state, slot, Slot::State::away);
    if (slot.for_good) gone.push_back(slot.id);
  }
  std::erase_if(state.slots, [&](const Slot& slot) { return std::ranges::find(gone, slot.id) != gone.end(); });
  std::erase_if(state.underway.owed, [&](const Owed& owed) {
    const bool waits = std::ranges::any_of(owed.slots, [&](SlotId id) {
      const Slot* one = slot(state, id);
      return one != nullptr && one->state == Slot::State::leaving;
    });
    if (!waits) turn.act(Released{owed.client, owed.names, turn.now - owed.asked});
    return !waits;
  });
}

}  // namespace estrain::dispatch
