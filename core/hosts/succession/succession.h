#pragma once
// Decides which host leads a run after a loss of the coordinator. Pure: a host's observations go in, the next action
// comes out; the sockets, the run directory's lock and the clock are the agent's (agent.cpp). PROTOCOL.md states the
// rules and why a run never has two leaders; tests/hosts_in_virtual_time drives this class through simulated networks.
//
// A host without a coordinator is an orphan. Orphans send each other Claims. The first host in the order of the plan
// that can lead tries to take the run directory's lock, the lease: the owner of the lock leads. If hosts see each
// other's locks, a free lock says that the old coordinator has ended. If hosts do not, the lock counts only with a
// majority of the hosts behind it, and each host backs one host, for good.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/json/fields.h"
#include "core/state/run_directory/term.h"

namespace estrain::hosts {

// The coordinator's rule: the coordinator gives up if the silent hosts may be a majority of the stage, with a host that
// may take over. Then the other hosts may resume the run. `hosts`: hosts of the last opened stage, the own host
// counted. `silent_that_see_the_run`: the silent hosts that see the run directory.
bool must_give_up(size_t hosts, size_t silent, size_t silent_that_see_the_run);

// An orphan's message to the other orphans.
struct Claim {
  uint64_t stage = 0;    // the last stage that the host opened
  bool fit = false;      // the host holds the whole state of the newest step, and the records that files may lack
  std::string backs;     // the host that should lead; empty: not chosen yet
  bool sees_run = true;  // the run directory: a newer stage delays other hosts only if this host may lead

  bool operator==(const Claim&) const = default;
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
  int64_t patience_ns = 0;
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

class Succession {
 public:
  enum class Step { wait, take_lease, lead, end };

  // `reached`: the connected hosts.
  Succession(Orphan orphan, std::set<std::string> reached, int64_t now_ns);

  void lose(const std::string& host);
  void hear(const std::string& from, const Claim& claim);
  void answer(LeaseAnswer answer);

  // The owner sends the claim to all hosts whenever the claim has changed.
  const Claim& claim() const { return claim_; }
  Step next(int64_t now_ns);
  // Why the run ends on this host.
  const std::string& why() const { return why_; }
  const Orphan& orphan() const { return orphan_; }

 private:
  bool is_newcomer() const { return orphan_.stage == 0; }
  bool is_fit_to_lead() const { return orphan_.fit && orphan_.sees_run; }
  bool may_lead(const std::string& host) const;
  bool all_have_spoken() const;
  std::optional<std::string> first_in_order() const;
  bool has_majority() const;

  const Orphan orphan_;
  std::set<std::string> reached_;
  std::map<std::string, Claim> others_;
  Claim claim_;
  const int64_t lost_ns_;
  bool leads_ = false;
  std::string why_;
};

}  // namespace estrain::hosts
