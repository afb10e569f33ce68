#pragma once
// Decides which host leads a run once its coordinator is lost. Pure: a host's observations go in, its next action comes
// out; the sockets, the run directory's lock and the clock are the agent's (agent.cpp). PROTOCOL.md states the
// rules and why there are never two; tests/hosts_in_virtual_time drives them through simulated networks.
//
// A host that has lost its coordinator is an orphan. Orphans tell each other what they are (Claim). The first one in
// the order of the plan that can lead tries to take the run directory's lock, the lease: whoever has it leads. Where
// hosts see each other's locks, a lock that is free says that the old coordinator has ended. Where they do not, the
// lock is worth something only with a majority of the hosts behind it, and those back one host each, for good.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/state/run_directory/term.h"

namespace estrain::hosts {

// The coordinator's rule: it has lost so many hosts, of which nothing was heard any more, that they may be a majority
// without it, and one of them may lead. Then it gives up; the others may go on. `hosts`: of the stage that was opened
// last, the own one counted. `silent_that_see_the_run`: of the silent ones, those that see the run directory.
bool must_give_up(size_t hosts, size_t silent, size_t silent_that_see_the_run);

// An orphan tells the others this.
struct Claim {
  uint64_t stage = 0;    // the last that it opened
  bool fit = false;      // it holds the whole state of its newest step, and the records that files may lack
  std::string backs;     // which host it wants to lead; empty: it has not chosen
  bool sees_run = true;  // the run directory: others wait for one that opened a later stage only if it may lead

  bool operator==(const Claim&) const = default;
};

// The state of a host when it lost the coordinator.
struct Orphan {
  std::string name;
  // The hosts of the last stage that it opened, or else of the one that it was about to open; the coordinator first.
  std::vector<std::string> hosts;
  uint64_t stage = 0;  // that it opened last; 0: none yet, a newcomer
  bool fit = false;
  bool sees_run = true;     // the run directory: a host that does not may back others, and never leads
  bool sees_locks = false;  // it was seen to see the coordinator's lock
  int64_t patience_ns = 0;
};

// Whether the run can go on from what a host holds.
struct Holdings {
  bool opened_a_stage = false;
  bool receives_state = false;  // of which not all is there yet
  int64_t records_from = 0;     // the first step whose record it holds
  int64_t recorded = -1;        // up to this step the run's files have all records
};
bool is_fit(const Holdings& holdings);

// An agent's answer to a host that connects. `orphan`: the agent has lost its coordinator.
enum class PeerAnswer {
  turn_away,  // a coordinator whose time is over, or a host that follows another one
  take,
  begin_anew,  // the next coordinator: all that is left of the one before is dropped first
};
PeerAnswer judge_peer(int64_t own_term, bool orphan, int64_t peer_term, bool peer_leads);
// An agent's answer to the coordinator that it has joined by an address. One that it has left, in the same term, gets
// it back as if it were started anew: with nothing.
PeerAnswer judge_registry(int64_t own_term, bool orphan, int64_t registry_term);

enum class LeaseAnswer {
  taken,
  // No stage of the last term was open anywhere, and this host has none of an earlier one to go on from, or somebody
  // has led since: the newest checkpoint is all that there is.
  taken_at_checkpoint,
  held,  // by somebody else: the old coordinator or the next
  over,  // somebody has led since, or the run has ended
};

// Judges a lock that is free. `has_owner`: the last owner did not end as it should. `known`: the term in which this
// host was led, and the last stage that it opened, 0 for none; `now`: those of the run directory.
LeaseAnswer judge_lease(bool has_owner, const run_directory::Term& known, const run_directory::Term& now);

class Succession {
 public:
  enum class Step { wait, take_lease, lead, end };

  // `reached`: the other hosts that it is connected to.
  Succession(Orphan orphan, std::set<std::string> reached, int64_t now_ns);

  void lose(const std::string& host);
  void hear(const std::string& from, const Claim& claim);
  void answer(LeaseAnswer answer);

  // To be told to all whenever it differs from what they were told.
  const Claim& claim() const { return claim_; }
  Step next(int64_t now_ns);
  // Why it ends.
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
