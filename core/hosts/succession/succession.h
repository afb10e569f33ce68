#pragma once
// Decides which host leads a run after a loss of the coordinator: a pure function from a state, an event and the time
// to actions with reasons. The sockets, the run directory's lock and the clock are the driver's (../orphan.h).
// PROTOCOL.md states the rules and why a run never has two leaders; tests/hosts_in_virtual_time drives the decisions
// through simulated networks.
//
// A host without a coordinator is an orphan. Orphans send each other LeadClaims. The first host in the order of the
// plan that can lead tries to take the run directory's lock, the lease: the owner of the lock leads. If hosts see each
// other's locks, a free lock says that the old coordinator has ended. If hosts do not, the lock counts only with a
// majority of the hosts behind it, and each host backs one host, for good.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/base/json/fields.h"
#include "core/state/run_directory/term.h"

namespace estrain::hosts {

// The coordinator's rule: the coordinator gives up if the silent hosts may be a majority of the stage, with a host that
// may take over. Then the other hosts may resume the run. `hosts`: hosts of the last opened stage, the own host
// counted. `silent_that_see_the_run`: the silent hosts that see the run directory.
bool must_give_up(size_t hosts, size_t silent, size_t silent_that_see_the_run);

// An orphan's message to the other orphans.
struct LeadClaim {
  uint64_t stage = 0;    // the last stage that the host opened
  bool fit = false;      // the host holds the whole state of the newest step, and the records that files may lack
  std::string backs;     // the host that should lead; empty: not chosen yet
  bool sees_run = true;  // the run directory: a newer stage delays other hosts only if this host may lead

  bool operator==(const LeadClaim&) const = default;
  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(stage, fit, backs, sees_run)
};

// The state of a host when it lost the coordinator.
struct Orphan {
  std::string name;
  // The hosts of the last stage opened on this host, or else about to be opened; the coordinator first.
  std::vector<std::string> hosts;
  uint64_t stage = 0;  // the last opened stage; 0: a newcomer, without a stage yet
  bool fit = false;
  bool sees_run = true;     // the run directory: a host without it backs another host, and never leads
  bool sees_locks = false;  // this host was seen to see the coordinator's lock
  Nanoseconds patience{};
  Nanoseconds between_claims = 200ms;  // a claim that has not changed is told again after this time
};

// The facts that decide whether the run can resume from a host's memory.
struct Holdings {
  bool opened_a_stage = false;
  bool receives_state = false;  // the state has not arrived entirely yet
  int64_t records_from = 0;     // the first step whose record the host holds
  int64_t recorded = -1;        // up to this step the run's files have all records
};
bool is_fit(const Holdings& holdings);

// An agent's answer to a connecting host. `orphan`: the agent has lost its coordinator.
enum class PeerAnswer {
  turn_away,  // a coordinator of a past term, or a host with another coordinator
  take,
  begin_anew,  // the next coordinator: everything left from the previous coordinator is dropped first
};
PeerAnswer judge_peer(int64_t own_term, bool orphan, int64_t peer_term, bool peer_leads);
// An agent's answer to the coordinator that the agent has joined by an address. An agent that had left this
// coordinator, in the same term, returns as if it were started anew: without state.
PeerAnswer judge_registry(int64_t own_term, bool orphan, int64_t registry_term);

enum class LeaseAnswer {
  taken,
  // No stage of the last term was open anywhere, and this host has no stage of an earlier term to resume from, or
  // another launch has led since: only the newest checkpoint is left.
  taken_at_checkpoint,
  held,  // by another host: the old coordinator or the next
  over,  // another launch has led since, or the run has ended
};

// Judges a free lock. `has_owner`: the last owner did not end properly. `known`: the term in which this host was led,
// and the last stage opened on this host, 0 for no stage; `now`: the same two of the run directory.
LeaseAnswer judge_lease(bool has_owner, const run_directory::Term& known, const run_directory::Term& now);

// The decider. `Succession` is the state, from the loss of the coordinator on: decide() changes the state as if the
// actions had been carried out. TryLease is answered by LeaseAnswered.
struct Succession {
  Orphan orphan;
  std::set<std::string> reached;            // the connected hosts
  std::map<std::string, LeadClaim> others;  // by host
  LeadClaim claim;                          // this host's own
  MonotonicTime lost{};                     // when the coordinator was lost
  std::optional<LeadClaim> told;            // the claim that the other hosts have heard, and when
  MonotonicTime told_at{};
  bool leads = false;
  bool is_over = false;  // another host has led since, or the run has ended
};
Succession succession_of(Orphan orphan, std::set<std::string> reached, MonotonicTime now);

// Events.
struct TimePasses {};  // ten times a second or more
struct HostUnreached {
  std::string host;
};
struct ClaimArrived {
  std::string from;
  LeadClaim claim;
};
struct LeaseAnswered {
  LeaseAnswer answer = LeaseAnswer::held;
};
using SuccessionEvent = std::variant<TimePasses, HostUnreached, ClaimArrived, LeaseAnswered>;

// Actions.
struct TellOthers {  // all connected hosts
  LeadClaim claim;
};
struct KeepWaiting {};
struct TryLease {};
struct TakeOver {
  bool at_checkpoint = false;  // from the newest checkpoint; else from this host's memory
};
struct EndOnThisHost {};  // the run does not resume on this host

struct SuccessionAction {
  std::variant<TellOthers, KeepWaiting, TryLease, TakeOver, EndOnThisHost> deed;
  std::string reason;  // why, in words
};

std::vector<SuccessionAction> decide(Succession& state, const SuccessionEvent& event, MonotonicTime now);

}  // namespace estrain::hosts
