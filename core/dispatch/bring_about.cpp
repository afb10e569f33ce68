// Brings jobs from what they hold to what they are to have.

#include <algorithm>

#include "core/base/error.h"
#include "core/dispatch/dispatcher.h"
#include "core/dispatch/homes.h"
#include "core/dispatch/slots.h"
#include "core/dispatch/targets.h"

namespace estrain::dispatch {
namespace {

constexpr double kAsked = 0.8;   // of the time that is left, a job gets to let go by itself
constexpr double kKilled = 0.9;  // of the time, it is killed

int64_t wanted(const Job& job, const std::string& group) {
  const auto at = job.target.find(group);
  return at == job.target.end() ? 0 : at->second;
}

// The dispatcher's, for one pass.
struct Reach {
  State& state;
  const Settings& settings;
  const std::vector<Owed>& owed;
  std::set<JobId>& killed;
  std::map<JobId, double>& asked_to_let_go;
  std::vector<Action>& actions;
};

// Brings a job from what it holds to what it is to have.
class Change {
 public:
  explicit Change(const Reach& pool) : pool_(pool) {}

  void bring_about(Job& job, double now) {
    const Owed* owed = most_urgent(job.id);
    const auto asked = pool_.asked_to_let_go.find(job.id);
    const bool is_deaf = asked != pool_.asked_to_let_go.end() && now >= asked->second + pool_.settings.patience;
    const bool is_late = owed != nullptr && now >= owed->asked + kKilled * owed->within;
    if ((is_late || is_deaf) && pool_.killed.insert(job.id).second) {
      pool_.actions.emplace_back(KillJob{job.id});
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
        if (is_to_end || is_hurried) stop(job, now);
        return;
      case Phase::running:
        if (is_to_end) return stop(job, now);
        if (!can_lead(job.home, job.target)) {
          job.reason = "goes on where its devices are";
          return stop(job, now);
        }
        if (const bool too_many = std::ranges::any_of(slots_of(pool_.state, job.id),
                                                      [&](const Slot* slot) {
                                                        return held(pool_.state, job.id, slot->group()) >
                                                               wanted(job, slot->group());
                                                      });
            too_many || must_let_go(job.id))
          return shrink(job, now);
        if (now >= job.no_growth_before) grow(job);
        if (job.phase == Phase::running && job.batch.wanted != 0) change_batch(job);
        return;
      case Phase::changing:
        // Asked for devices while it was getting others: the request that it has is given up for this one.
        if (is_hurried && is_to_end) return stop(job, now);
        return;
      default:
        return;
    }
  }

 private:
  bool must_let_go(JobId id) const {
    return std::ranges::any_of(
        pool_.state.slots, [&](const Slot& slot) { return slot.holder == id && slot.state == Slot::State::leaving; });
  }

  // The most urgent of the requests that wait for one of its devices; null: none, or none with a time limit.
  const Owed* most_urgent(JobId id) const {
    const Owed* first = nullptr;
    for (const Owed& owed : pool_.owed) {
      const bool concerns = std::ranges::any_of(pool_.state.slots, [&](const Slot& slot) {
        return slot.holder == id && std::ranges::find(owed.slots, slot.id) != owed.slots.end();
      });
      if (!concerns || owed.within == Dispatcher::kNoHurry) continue;
      if (first == nullptr || owed.deadline() < first->deadline()) first = &owed;
    }
    return first;
  }

  double time_to_let_go(JobId id, double now) const {
    const Owed* owed = most_urgent(id);
    if (owed == nullptr) return pool_.settings.within;
    return std::max(0.05, kAsked * (owed->deadline() - now));
  }

  void start(Job& job) {
    for (const auto& [group, count] : job.target) {
      if (free_slots(pool_.state, group) < count) return;
    }
    for (const auto& [group, count] : job.target) {
      int64_t left = count;
      for (Slot& slot : pool_.state.slots) {
        if (left == 0 || slot.holder != 0 || slot.state != Slot::State::present || slot.group() != group) continue;
        give(pool_.state, slot, job.id);
        --left;
      }
    }
    job.phase = Phase::starting;
    if (!job.started) job.started = pool_.state.seen;
    ++job.starts;
    job.home = home_for(job.target);
    pool_.actions.emplace_back(StartJob{job.id, names_of(pool_.state, job.id), job.home});
    note(job, "started", job.reason);
  }

  void grow(Job& job) {
    int64_t missing = 0;
    for (const auto& [group, count] : job.target) {
      const int64_t more = count - held(pool_.state, job.id, group);
      if (more > free_slots(pool_.state, group)) return;
      missing += std::max<int64_t>(more, 0);
    }
    if (missing == 0) return;
    GrowJob action{job.id, {}, {}};
    for (const auto& [group, count] : job.target) {
      int64_t more = count - held(pool_.state, job.id, group);
      for (Slot& slot : pool_.state.slots) {
        if (more <= 0 || slot.holder != 0 || slot.state != Slot::State::present || slot.group() != group) continue;
        give(pool_.state, slot, job.id);
        action.added.push_back(slot.name);
        --more;
      }
    }
    action.all = names_of(pool_.state, job.id);
    job.phase = Phase::changing;
    ++job.starts;
    pool_.actions.emplace_back(std::move(action));
    note(job, "grows", job.reason);
  }

  void change_batch(Job& job) {
    job.phase = Phase::changing;
    pool_.actions.emplace_back(ChangeBatch{job.id, job.batch.wanted, job.batch.wanted_lr_factor});
    note(job, "batch_asked", fmt::format("mini-batches of {} samples on {} devices", job.batch.wanted, job.targeted()));
  }

  void shrink(Job& job, double now) {
    ShrinkJob action{job.id, {}, time_to_let_go(job.id, now)};
    std::vector<Slot*> slots = slots_of(pool_.state, job.id);
    std::ranges::stable_sort(slots, {}, [](const Slot* slot) { return slot->state == Slot::State::present; });
    std::map<std::string, int64_t> more;
    for (const Slot* slot : slots)
      more[slot->group()] = held(pool_.state, job.id, slot->group()) - wanted(job, slot->group());
    for (const Slot* slot : slots) {
      if (more[slot->group()] <= 0 && slot->state == Slot::State::present) continue;
      --more[slot->group()];
      action.given_back.push_back(slot->name);
    }
    if (action.given_back.empty()) return;
    if (action.given_back.size() == slots.size()) return stop(job, now);
    job.phase = Phase::changing;
    ++job.starts;
    pool_.actions.emplace_back(std::move(action));
    pool_.asked_to_let_go[job.id] = now;
    note(job, "shrinks", job.reason);
  }

  void stop(Job& job, double now) {
    pool_.actions.emplace_back(StopJob{job.id, names_of(pool_.state, job.id), time_to_let_go(job.id, now)});
    job.phase = Phase::stopping;
    pool_.asked_to_let_go[job.id] = now;
    note(job, "stops", job.reason);
  }

  void note(const Job& job, std::string what, std::string reason) {
    pool_.actions.emplace_back(Note{job.id, std::move(what), job.targeted(), std::move(reason)});
  }

  Reach pool_;
};

}  // namespace

void Dispatcher::bring_about(double now) {
  Change change({state_, settings_, owed_, killed_, asked_to_let_go_, actions_});
  // Jobs that give devices back come first, so that the devices are free sooner.
  for (auto& [id, job] : state_.jobs) {
    if (is_up(job.phase)) change.bring_about(job, now);
  }
  for (Job* job : queue(state_, now)) {
    if (job->phase == Phase::waiting) change.bring_about(*job, now);
  }
}

void Dispatcher::complete_withdrawals(double now) {
  std::vector<SlotId> gone;
  for (Slot& slot : state_.slots) {
    if (slot.state != Slot::State::leaving || slot.holder != 0) continue;
    put(state_, slot, Slot::State::away);
    if (slot.for_good) gone.push_back(slot.id);
  }
  std::erase_if(state_.slots, [&](const Slot& slot) { return std::ranges::find(gone, slot.id) != gone.end(); });
  std::erase_if(owed_, [&](const Owed& owed) {
    const bool waits = std::ranges::any_of(owed.slots, [&](SlotId id) {
      const Slot* one = slot(state_, id);
      return one != nullptr && one->state == Slot::State::leaving;
    });
    if (!waits) actions_.emplace_back(Released{owed.client, owed.names, now - owed.asked});
    return !waits;
  });
}

// Which device of a name leaves: one that is free; else one whose holder gives devices back anyway; else one of whoever
// has most.
void Dispatcher::withdraw(const Withdrawal& withdrawal, double now) {
  if (!(withdrawal.within > 0)) throw Error(Fault::usage, "a time within which the devices are to be free is wanted");
  std::map<std::string, int64_t> names;
  for (const std::string& name : withdrawal.names) ++names[name];
  for (const auto& [name, count] : names) {
    const auto there = std::ranges::count_if(
        state_.slots, [&](const Slot& slot) { return slot.name == name && slot.state == Slot::State::present; });
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
  owed_.push_back(std::move(owed));
  actions_.emplace_back(
      Note{0, withdrawal.for_good ? "remove" : "take", static_cast<int64_t>(withdrawal.names.size()),
           withdrawal.within == kNoHurry ? "without haste" : fmt::format("within {:.3g} s", withdrawal.within)});
  make_fit(state_);
  // Before the policy is asked: nobody waits for what it would rather do.
  bring_about(now);
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
  actions_.emplace_back(Note{0, "lend", static_cast<int64_t>(names.size()), "devices are back"});
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
  if (types.size() > pool::Cluster::kMostTypes) {
    throw Error::make(Fault::infeasible, "{} types of devices are too many: a pool has {} at most", types.size(),
                      pool::Cluster::kMostTypes);
  }
  for (const std::string& name : names)
    state_.slots.push_back({++state_.last_slot, name, Slot::State::present, false, 0, now});
  actions_.emplace_back(Note{0, "add", static_cast<int64_t>(names.size()), "devices were added"});
  wake(now);
}

}  // namespace estrain::dispatch
