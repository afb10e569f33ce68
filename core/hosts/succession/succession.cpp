#include "core/hosts/succession/succession.h"

#include <algorithm>
#include <utility>

namespace estrain::hosts {
namespace {

constexpr int64_t kWaitForClaimsNs = 300'000'000;  // of connected hosts that have not noticed the loss yet
// If locks are seen, a host later in the order tries the lease after several turns, in case the earlier hosts failed.
constexpr int64_t kTurnNs = 10'000'000'000;

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

Succession::Succession(Orphan orphan, std::set<std::string> reached, int64_t now_ns)
    : orphan_(std::move(orphan)), reached_(std::move(reached)), lost_ns_(now_ns) {
  claim_.stage = orphan_.stage;
  claim_.fit = is_fit_to_lead();
  claim_.sees_run = orphan_.sees_run;
}

void Succession::lose(const std::string& host) {
  reached_.erase(host);
  others_.erase(host);
}

void Succession::hear(const std::string& from, const Claim& claim) {
  if (std::ranges::find(orphan_.hosts, from) == orphan_.hosts.end()) return;
  reached_.insert(from);
  others_[from] = claim;
}

void Succession::answer(LeaseAnswer answer) {
  leads_ = answer == LeaseAnswer::taken || answer == LeaseAnswer::taken_at_checkpoint;
  if (answer == LeaseAnswer::over && !is_newcomer()) why_ = "somebody has led the run since, or it has ended";
}

// A host that opened a later stage than another host may hold newer steps. The run directory tells whether any step was
// committed (judge_lease).
bool Succession::may_lead(const std::string& host) const {
  uint64_t newest = orphan_.stage;
  for (const auto& [name, claim] : others_) {
    if (claim.sees_run) newest = std::max(newest, claim.stage);
  }
  if (host == orphan_.name) return is_fit_to_lead() && orphan_.stage == newest;
  const auto at = others_.find(host);
  return at != others_.end() && at->second.fit && at->second.stage == newest;
}

bool Succession::all_have_spoken() const {
  return std::ranges::all_of(
      orphan_.hosts, [&](const std::string& host) { return !reached_.contains(host) || others_.contains(host); });
}

std::optional<std::string> Succession::first_in_order() const {
  for (const std::string& host : orphan_.hosts) {
    if (may_lead(host)) return host;
  }
  return std::nullopt;
}

bool Succession::has_majority() const {
  const auto backs = std::ranges::count_if(others_, [&](const auto& other) {
    return other.second.backs == orphan_.name && other.second.stage == orphan_.stage;
  });
  return 2 * (static_cast<size_t>(backs) + 1) > orphan_.hosts.size();
}

Succession::Step Succession::next(int64_t now_ns) {
  if (leads_) return Step::lead;
  if (!why_.empty()) return Step::end;
  const int64_t waited_ns = now_ns - lost_ns_;
  if (waited_ns > orphan_.patience_ns) {
    why_ = "no host could take the coordinator's place in time";
    return Step::end;
  }
  if (!all_have_spoken() && waited_ns < kWaitForClaimsNs) return Step::wait;
  const std::optional<std::string> first = first_in_order();
  if (first && claim_.backs.empty()) claim_.backs = *first;
  if (!orphan_.sees_run || (!may_lead(orphan_.name) && !is_newcomer())) return Step::wait;
  if (!orphan_.sees_locks) return claim_.backs == orphan_.name && has_majority() ? Step::take_lease : Step::wait;
  if (first == orphan_.name || (is_newcomer() && !first)) return Step::take_lease;
  const auto at = std::ranges::find(orphan_.hosts, orphan_.name);
  return waited_ns > kTurnNs * (at - orphan_.hosts.begin()) ? Step::take_lease : Step::wait;
}

}  // namespace estrain::hosts
