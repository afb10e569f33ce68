#include "core/hosts/succession/succession.h"

#include <algorithm>
#include <utility>

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kWaitForClaims = 300ms;  // of connected hosts that have not noticed the loss yet
// If locks are seen, a host later in the order tries the lease after several turns, in case the earlier hosts failed.
constexpr Nanoseconds kTurn = 10s;

bool is_newcomer(const Orphan& orphan) { return orphan.stage == 0; }
bool is_fit_to_lead(const Orphan& orphan) { return orphan.fit && orphan.sees_run; }

// A host that opened a later stage than another host may hold newer steps. The run directory tells whether any step was
// committed (judge_lease).
bool may_lead(const Succession& state, const std::string& host) {
  uint64_t newest = state.orphan.stage;
  for (const auto& [name, claim] : state.others) {
    if (claim.sees_run) newest = std::max(newest, claim.stage);
  }
  if (host == state.orphan.name) return is_fit_to_lead(state.orphan) && state.orphan.stage == newest;
  const auto at = state.others.find(host);
  return at != state.others.end() && at->second.fit && at->second.stage == newest;
}

bool all_have_spoken(const Succession& state) {
  return std::ranges::all_of(state.orphan.hosts, [&](const std::string& host) {
    return !state.reached.contains(host) || state.others.contains(host);
  });
}

std::optional<std::string> first_in_order(const Succession& state) {
  for (const std::string& host : state.orphan.hosts) {
    if (may_lead(state, host)) return host;
  }
  return std::nullopt;
}

bool has_majority(const Succession& state) {
  const auto backs = std::ranges::count_if(state.others, [&](const auto& other) {
    return other.second.backs == state.orphan.name && other.second.stage == state.orphan.stage;
  });
  return 2 * (static_cast<size_t>(backs) + 1) > state.orphan.hosts.size();
}

SuccessionAction keep_waiting(const Orphan& orphan) {
  if (!orphan.sees_run) return {KeepWaiting{}, "it does not see the run directory"};
  return {KeepWaiting{}, orphan.fit ? "another host comes first, or has not answered"
                                    : "this host lacks steps, or records that the run's files lack"};
}

// If locks are not seen, the host needs a majority behind it.
SuccessionAction next_without_locks(const Succession& state) {
  const Orphan& orphan = state.orphan;
  if (state.claim.backs == orphan.name && has_majority(state)) return {TryLease{}, "most hosts back this host"};
  return keep_waiting(orphan);
}

SuccessionAction next_with_locks(const Succession& state, const std::optional<std::string>& first, Nanoseconds waited) {
  const Orphan& orphan = state.orphan;
  if (first == orphan.name) return {TryLease{}, "this host is the first that may lead"};
  if (is_newcomer(orphan) && !first) return {TryLease{}, "no host has opened a stage"};
  const auto at = std::ranges::find(orphan.hosts, orphan.name);
  if (waited > kTurn * (at - orphan.hosts.begin())) return {TryLease{}, "the hosts before it had their turns"};
  return keep_waiting(orphan);
}

// Chooses the backed host, for good.
SuccessionAction next_action(Succession& state, MonotonicTime now) {
  const Orphan& orphan = state.orphan;
  if (state.is_over) return {EndOnThisHost{}, "another host has led the run since, or the run has ended"};
  const Nanoseconds waited = now - state.lost;
  if (waited > orphan.patience) return {EndOnThisHost{}, "no host could take the coordinator's place in time"};
  if (!all_have_spoken(state) && waited < kWaitForClaims) return keep_waiting(orphan);
  const std::optional<std::string> first = first_in_order(state);
  if (first && state.claim.backs.empty()) state.claim.backs = *first;
  if (!orphan.sees_run || (!may_lead(state, orphan.name) && !is_newcomer(orphan))) return keep_waiting(orphan);
  return orphan.sees_locks ? next_with_locks(state, first, waited) : next_without_locks(state);
}

std::vector<SuccessionAction> react(Succession& state, const TimePasses&, MonotonicTime now) {
  if (state.leads) return {};
  const SuccessionAction next = next_action(state, now);
  const bool is_new = state.told != state.claim;
  if (!is_new && now - state.told_at < state.orphan.between_claims) return {next};
  state.told = state.claim;
  state.told_at = now;
  return {{TellOthers{state.claim}, is_new ? "the claim has changed" : "a host may not have heard it"}, next};
}

std::vector<SuccessionAction> react(Succession& state, const HostUnreached& event, MonotonicTime) {
  state.reached.erase(event.host);
  state.others.erase(event.host);
  return {};
}

// A host that was not in the stage has no voice.
std::vector<SuccessionAction> react(Succession& state, const ClaimArrived& event, MonotonicTime) {
  const std::vector<std::string>& hosts = state.orphan.hosts;
  if (std::ranges::find(hosts, event.from) == hosts.end()) return {};
  state.reached.insert(event.from);
  state.others[event.from] = event.claim;
  return {};
}

std::vector<SuccessionAction> react(Succession& state, const LeaseAnswered& event, MonotonicTime) {
  switch (event.answer) {
    case LeaseAnswer::taken:
      state.leads = true;
      return {{TakeOver{.at_checkpoint = false}, "this host holds the newest state"}};
    case LeaseAnswer::taken_at_checkpoint:
      state.leads = true;
      return {{TakeOver{.at_checkpoint = true}, "only the newest checkpoint is left"}};
    case LeaseAnswer::over:
      state.is_over = !is_newcomer(state.orphan);
      break;
    case LeaseAnswer::held:
      break;
  }
  return {{KeepWaiting{}, "the run's lock is held, or its owner is at work"}};
}

}  // namespace

bool must_give_up(size_t hosts, size_t silent, size_t silent_that_see_the_run) {
  return 2 * silent > hosts && silent_that_see_the_run > 0;
}

bool is_fit(const Holdings& holdings) {
  return holdings.opened_a_stage && !holdings.receives_state && holdings.records_from <= holdings.recorded + 1;
}

PeerAnswer judge_peer(int64_t own_term, bool orphan, int64_t peer_term, bool peer_leads) {
  if (peer_leads && peer_term > own_term) return PeerAnswer::begin_anew;
  return peer_term == own_term && !(peer_leads && orphan) ? PeerAnswer::take : PeerAnswer::turn_away;
}

PeerAnswer judge_registry(int64_t own_term, bool orphan, int64_t registry_term) {
  if (registry_term < own_term) return PeerAnswer::turn_away;
  return orphan || registry_term > own_term ? PeerAnswer::begin_anew : PeerAnswer::take;
}

LeaseAnswer judge_lease(bool has_owner, const run_directory::Term& known, const run_directory::Term& now) {
  if (!has_owner || now.term < known.term) return LeaseAnswer::over;
  const bool has_its_own = now.term == known.term && known.stage > 0;
  if (has_its_own) return now.stage <= known.stage ? LeaseAnswer::taken : LeaseAnswer::over;
  return now.stage == 0 ? LeaseAnswer::taken_at_checkpoint : LeaseAnswer::over;
}

Succession succession_of(Orphan orphan, std::set<std::string> reached, MonotonicTime now) {
  Succession state;
  state.claim.stage = orphan.stage;
  state.claim.fit = is_fit_to_lead(orphan);
  state.claim.sees_run = orphan.sees_run;
  state.orphan = std::move(orphan);
  state.reached = std::move(reached);
  state.lost = now;
  return state;
}

std::vector<SuccessionAction> decide(Succession& state, const SuccessionEvent& event, MonotonicTime now) {
  return std::visit([&](const auto& one) { return react(state, one, now); }, event);
}

}  // namespace estrain::hosts
