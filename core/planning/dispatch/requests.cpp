// Jobs are submitted and cancelled, policies are chosen; devices join the pool, are asked back, and are lent again.

#include <algorithm>

#include "core/base/error.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/targets.h"
#include "core/planning/dispatch/turn.h"

namespace estrain::dispatch {
namespace {

void refuse_no_guest(const Request& request) {
  const char* why = request.type == "cuda" ? "a GPU gives no job precedence: name CPUs in resources.devices"
                    : request.least > 0    ? "--min would keep devices, and a guest leaves at once"
                    : request.alone        ? "--alone would keep other jobs off"
                    : request.deadline     ? "--deadline needs devices by right"
                                           : nullptr;
  if (why != nullptr) throw Error::make(Fault::usage, "--background: {}", why);
}

}  // namespace

void on(DispatchTurn& turn, const Submitted& event) {
  State& state = turn.state;
  const Request& request = event.request;
  const double now = turn.now;
  if (request.least < 0 || request.most < 1 || request.least > request.most) {
    throw Error::make(Fault::usage, "a job cannot have at least {} and at most {} devices", request.least,
                      request.most);
  }
  if (request.deadline && *request.deadline <= now) throw Error(Fault::usage, "the deadline is over already");
  if (request.background) refuse_no_guest(request);
  const auto is_there = [&](const Slot& slot) { return slot.type() == request.type; };
  if (!request.type.empty() && std::ranges::none_of(state.slots, is_there)) {
    throw Error::make(Fault::infeasible, "the job wants {}, and the pool has no such device", request.type)
        .advise("name other devices in the spec's resources.devices, or add some: estrain pool devices add");
  }
  Job& job = state.jobs[++state.last_job];
  job.id = state.last_job;
  job.request = request;
  job.submitted = now;
  job.reason = kToBeChecked;
  turn.act(CheckJob{job.id});
  turn.act(note_of(job, "submitted", "by " + request.user));
  go_on(turn);
}

void on(DispatchTurn& turn, const NumbersTaken& event) {
  State& state = turn.state;
  state.last_job = std::max(state.last_job, event.next - 1);
}

void on(DispatchTurn& turn, const SubmissionUndone& event) {
  State& state = turn.state;
  state.jobs.erase(event.job);
}

void on(DispatchTurn& turn, const CancelAsked& event) {
  State& state = turn.state;
  Job& one = job_of(state, event.job);
  if (is_over(one.phase))
    throw Error::make(Fault::usage, "job {} is over already: {}", event.job, phase_name(one.phase));
  if (is_up(one.phase)) {
    one.is_unwanted = true;
    one.target.clear();
  } else {
    finish(turn, one, Phase::cancelled, {.how = Ended::How::stopped, .reason = "cancelled"}, 0);
  }
  wake(turn, one);
}

void on(DispatchTurn& turn, const PolicyChosen& event) {
  State& state = turn.state;
  scheduling::PolicyChoice choice = scheduling::make_policy_for_real_jobs(event.policy, state.seed);
  require_known(choice, types_with(state, {}));
  turn.policy = std::move(choice);
  state.policy = event.policy;
  turn.act(WriteHistory{0, "policy", 0, event.policy});
  wake(turn);
}

// Takes free devices of a name first, then devices whose holder gives devices back anyway, then devices of the holder
// with most devices.
void on(DispatchTurn& turn, const Withdrawal& event) {
  State& state = turn.state;
  const double now = turn.now;
  const double within = event.within.value_or(kNoHurry);
  if (!(within > 0)) throw Error(Fault::usage, "a time within which the devices are to be free is wanted");
  std::map<std::string, int64_t> names;
  for (const std::string& name : event.names) ++names[name];
  for (const auto& [name, count] : names) {
    const auto there = std::ranges::count_if(state.slots, [&wanted = name](const Slot& slot) {
      return slot.name == wanted && slot.state == Slot::State::present;
    });
    if (there < count) {
      throw Error::make(Fault::usage, "the pool has {} of {}, {} are asked back", there, name, count)
          .advise("see `estrain pool status`");
    }
  }
  account(state, now);
  Owed owed{{}, event.names, now, within, event.client};
  for (const std::string& name : event.names) {
    Slot* best = nullptr;
    std::pair<int, int64_t> worth;
    for (Slot& slot : state.slots) {
      if (slot.name != name || slot.state != Slot::State::present) continue;
      const Job* holder = slot.holder == 0 ? nullptr : &state.jobs[slot.holder];
      const int64_t has = holder == nullptr ? 0 : held(state, holder->id, slot.group());
      const bool gives_back = holder != nullptr && has > wanted(*holder, slot.group());
      const bool settled = holder != nullptr && holder->phase == Phase::running;
      const int rank = holder == nullptr ? 3 : gives_back ? 2 : settled ? 1 : 0;
      if (best == nullptr || std::pair(rank, has) > worth) best = &slot, worth = {rank, has};
    }
    if (best->holder != 0) {
      Job& holder = state.jobs[best->holder];
      if (held(state, holder.id, best->group()) <= wanted(holder, best->group())) {
        lessen(holder, best->group());
        ++holder.owed;
        holder.reason = "an owner with a higher right takes a device";
      }
    }
    put(state, *best, Slot::State::leaving);
    best->for_good = event.for_good;
    owed.slots.push_back(best->id);
  }
  state.underway.owed.push_back(std::move(owed));
  const bool has_time = within != kNoHurry;
  turn.act(WriteHistory{0, event.for_good ? "remove" : "take", static_cast<int64_t>(event.names.size()),
                        has_time ? sentence(Counted::within, within) : "without haste", event.names,
                        has_time ? std::optional(within) : std::nullopt});
  make_fit(state);
  // Before the policy is asked: no client waits for the policy's preferences.
  bring_about(turn);
  wake(turn);
}

void on(DispatchTurn& turn, const DevicesLent& event) {
  State& state = turn.state;
  const double now = turn.now;
  std::vector<Slot*> chosen;
  for (const std::string& name : event.names) {
    const auto at = std::ranges::find_if(state.slots, [&](Slot& slot) {
      return slot.name == name && slot.state == Slot::State::away && std::ranges::find(chosen, &slot) == chosen.end();
    });
    if (at == state.slots.end()) {
      throw Error::make(Fault::usage, "no device {} of the pool is away: there is nothing to lend", name)
          .advise("`estrain pool take` takes one; `estrain pool devices add` adds one that the pool does not know");
    }
    chosen.push_back(&*at);
  }
  account(state, now);
  for (Slot* slot : chosen) put(state, *slot, Slot::State::present);
  turn.act(WriteHistory{0, "lend", static_cast<int64_t>(event.names.size()), "devices are back", event.names});
  wake(turn);
}

void on(DispatchTurn& turn, const DevicesAdded& event) {
  State& state = turn.state;
  const double now = turn.now;
  for (const std::string& name : event.names) {
    const bool is_there = std::ranges::find(state.slots, name, &Slot::name) != state.slots.end();
    if (Slot{0, name}.type() == "cuda" && (is_there || std::ranges::count(event.names, name) > 1))
      throw Error::make(Fault::usage, "the pool can have {} once", name);
  }
  const std::vector<std::string> types = types_with(state, event.names);
  require_known(turn.policy, types);
  if (types.size() > scheduling::Cluster::kMostTypes) {
    throw Error::make(Fault::infeasible, "{} types of devices are too many: a pool has {} at most", types.size(),
                      scheduling::Cluster::kMostTypes);
  }
  account(state, now);
  for (const std::string& name : event.names)
    state.slots.push_back({++state.last_slot, name, Slot::State::present, false, 0, now});
  turn.act(WriteHistory{0, "add", static_cast<int64_t>(event.names.size()), "devices were added", event.names});
  wake(turn);
}

}  // namespace estrain::dispatch
