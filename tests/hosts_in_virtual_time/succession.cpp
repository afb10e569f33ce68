// The actions of hosts that have lost their coordinator, until one of them leads.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/hosts_in_virtual_time/world.h"

namespace estrain::hosts_in_virtual_time {
namespace {

constexpr int64_t kWatchNs = 35'000 * kMs;
constexpr int64_t kTouchNs = 10'000 * kMs;
constexpr int64_t kLookNs = 100 * kMs, kBetweenRegistrationsNs = 500 * kMs;
constexpr int64_t kLastRegistrationNs = 200'000 * kMs;
constexpr int64_t kClaimNs = 400 * kMs;

}  // namespace

void World::orphan(Host& host) {
  send(host, host.leader, [this, leader = host.leader, id = host.id] { drop(this->host(leader), id, true); });
  close(host, host.leader);
  const std::vector<int>& members = host.stage == 0 && host.opening ? host.next_members : host.members;
  hosts::Orphan orphan{.name = name(host.id),
                       .hosts = {},
                       .stage = host.stage,
                       .fit = rules_.is_fit({.opened_a_stage = host.stage > 0,
                                             .receives_state = host.receives,
                                             .records_from = host.records_from,
                                             .recorded = host.recorded}),
                       .sees_run = host.sees_run,
                       .sees_locks = host.sees_locks && host.sees_run,
                       .patience = Nanoseconds(patience_ns_),
                       .between_claims = Nanoseconds(kClaimNs)};
  std::set<std::string> reached;
  for (const int member : members) orphan.hosts.push_back(name(member));
  host.in_stage = host.opening = false;
  for (const Host& other : hosts_) {
    if (linked(host.id, other.id)) reached.insert(name(other.id));
  }
  say(fmt::format("{} is an orphan of stage {}, at step {}{}", name(host.id), host.stage, host.committed,
                  orphan.fit ? "" : ", not fit"));
  host.succession = hosts::succession_of(rules_.orphan(std::move(orphan)), std::move(reached), monotonic_time(now_));
  judge_all_hearing(host.id);
  const bool is_beside_led = std::ranges::any_of(
      hosts_, [&](const Host& other) { return other.alive && linked(host.id, other.id) && has_coordinator(other); });
  if (is_beside_led) hit(Hit::apart_from_orphan);
  look(host);
}

void World::look(Host& host) {
  if (!host.succession || host.role != Role::agent) return;
  const int64_t began = now_;
  at(host, kLookNs, [this, id = host.id, began] {
    if (this->host(id).told_ns <= began + kLookNs) look(this->host(id));
  });
  if (host.watches) return;
  happened(host, hosts::TimePasses{});
}

void World::happened(Host& host, const hosts::SuccessionEvent& event) {
  const std::vector<hosts::SuccessionAction> actions = rules_.decide(*host.succession, event, monotonic_time(now_));
  const std::string& backs = host.succession->claim.backs;
  if (!backs.empty()) backed_.emplace(host.term, host.stage, host.id, backs);
  for (const hosts::SuccessionAction& action : actions)
    std::visit([&](const auto& deed) { carry_out(host, deed, action.reason); }, action.deed);
}

void World::carry_out(Host& host, const hosts::TellOthers& deed, const std::string&) {
  host.told_ns = now_;
  for (const Host& other : hosts_) {
    if (!linked(host.id, other.id)) continue;
    send(host, other.id, [this, to = other.id, from = host.id, claim = deed.claim] {
      Host& one = this->host(to);
      if (one.succession) happened(one, hosts::ClaimArrived{name(from), claim});
    });
  }
}

void World::carry_out(Host& host, const hosts::EndOnThisHost&, const std::string& reason) {
  if (could_lead(host)) return break_law(Law::who_can_leads, name(host.id) + " ends: " + reason);
  say(fmt::format("{} ends: {}", name(host.id), reason));
  end(host);
}

// A host that has joined by the first launcher's address asks there again and again while somebody else leads it, or
// nobody does. It is used at once: a user wants all hosts.
void World::register_now_and_then(int id) {
  if (now_ < kLastRegistrationNs) push(now_ + kBetweenRegistrationsNs, [this, id] { register_now_and_then(id); });
  Host& one = host(id);
  Host& lead = host(0);
  const bool asks =
      one.alive && one.role == Role::agent && one.paused_until <= now_ && (one.succession || one.leader > 0);
  const bool answers = lead.alive && lead.role == Role::coordinator && lead.paused_until <= now_ && up_[index(id)][0] &&
                       up_[0][index(id)];
  if (!asks || !answers) return;
  if (rules_.judge_registry(one.term, one.succession.has_value(), lead.term) != hosts::PeerAnswer::begin_anew) return;
  if (lead.term < one.term) return break_law(Law::no_old_orders, name(id) + " registers with an earlier coordinator");
  say(name(id) + " registers again");
  hit(Hit::registered_again);
  begin_anew(one, lead.term);
  one.leader = -1;
  lead.left_out.erase(id);
  connect(lead, id, true);
  if (!std::exchange(lead.reopens, true)) at(lead, 700 * kMs, [this] { reopen(host(0)); });
}

// By the truth, which the host may not know: that a host has all records that the files lack since the last takeover,
// or that no stage was open since, so that nobody has more than the newest checkpoint.
bool World::could_lead(const Host& host) const {
  if (!host.sees_run || blind_ || files_.holder >= 0 || !files_.owned || host.term != files_.term.term) return false;
  if (host.stage == 0) return files_.term.stage == 0;
  const bool has_records = host.succession->orphan.fit || host.records_from <= led_from_ + 1;
  return host.stage >= files_.term.stage && !host.receives && has_records;
}

// By the truth: the hosts of its last stage that have ever backed it, itself among them.
bool World::has_most_behind(const Host& host) const {
  const auto behind = std::ranges::count_if(host.members, [&](int member) {
    return backed_.contains({host.term, host.stage, member, name(host.id)});
  });
  return 2 * static_cast<size_t>(behind) > host.members.size();
}

void World::carry_out(Host& host, const hosts::TryLease&, const std::string&) {
  if (!host.sees_run) return break_law(Law::sees_what_it_leads, name(host.id) + " takes the lease");
  if (blind_ && !has_most_behind(host)) return break_law(Law::most_are_behind, name(host.id) + " takes the lease");
  if (!blind_ && rules_.respects_locks && files_.holder >= 0)
    return happened(host, hosts::LeaseAnswered{hosts::LeaseAnswer::held});
  const hosts::LeaseAnswer answer = rules_.judge_lease(files_.owned, {host.term, host.stage}, files_.term);
  if (answer == hosts::LeaseAnswer::over || !blind_) return happened(host, hosts::LeaseAnswered{answer});
  host.watches = true;
  at(host, kWatchNs, [this, id = host.id, since = now_] {
    Host& one = this->host(id);
    one.watches = false;
    if (!one.succession) return;
    const hosts::LeaseAnswer judged = rules_.judge_lease(files_.owned, {one.term, one.stage}, files_.term);
    happened(one, hosts::LeaseAnswered{sees_touch(one, since) ? hosts::LeaseAnswer::held : judged});
  });
}

void World::carry_out(Host& host, const hosts::TakeOver& deed, const std::string&) {
  if (deed.at_checkpoint) {
    host.receives = false;
    host.committed = host.whole = led_from_;
    host.records_from = led_from_ + 1;
  }
  take_over(host);
}

void World::take_over(Host& host) {
  if (files_.ended) return break_law(Law::ended_stays_ended, name(host.id) + " takes over");
  hit(blind_ ? Hit::blind_takeovers : Hit::takeovers);
  if (!blind_) files_.holder = host.id;
  host.role = Role::taking;
  touch(host);
  check_leaders();
  if (rules_.keeps_whole_steps) host.committed = std::max(host.committed, host.whole);
  say(fmt::format("{} takes over at step {}; committed were {}, recorded {}", name(host.id), host.committed, committed_,
                  files_.recorded));
  if (host.receives || host.committed < committed_)
    return break_law(Law::nothing_lost,
                     fmt::format("{} goes on at {}, {} was committed", name(host.id), host.committed, committed_));
  if (host.records_from > files_.recorded + 1)
    return break_law(Law::no_record_lost, fmt::format("{} has records from {} on, the files up to {}", name(host.id),
                                                      host.records_from, files_.recorded));
  std::vector<int> others;
  for (const Host& other : hosts_) {
    if (linked(host.id, other.id)) others.push_back(other.id);
  }
  if (std::ranges::any_of(others, [&](int other) { return !this->host(other).sees_run; })) hit(Hit::apart_takeovers);
  ambush();
  at(host, random_.between(100, 1'500) * kMs, [this, id = host.id, others] {
    files_.recorded = this->host(id).committed;
    for (const Host& other : hosts_) close(this->host(id), other.id);
    at(this->host(id), random_.between(200, 1'500) * kMs,
       [this, id, others] { start_leading(this->host(id), others); });
  });
}

void World::start_leading(Host& host, const std::vector<int>& others) {
  host.succession.reset();
  host.role = Role::coordinator;
  files_.term = {files_.term.term + 1, 0};
  newest_term_ = files_.term.term;
  led_from_ = host.committed;
  host.term = newest_term_;
  host.leader = -1;
  host.stage = host.next_stage = 0;
  host.their_stage.fill(0);  // stages of a new term are counted from 1 again
  host.members = {host.id};
  host.silent.clear();
  host.left_out.clear();
  host.reports.clear();
  host.lost.clear();
  host.lost_for.clear();
  for (const int other : others) connect(host, other, true);
  host.reopens = true;
  at(host, 400 * kMs, [this, id = host.id] { reopen(this->host(id)); });
}

void World::touch(Host& host) {
  if (!leads(host)) return;
  files_.touches.emplace_back(now_, host.id);
  at(host, kTouchNs, [this, id = host.id] { touch(this->host(id)); });
}

bool World::sees_touch(const Host& host, int64_t since_ns) const {
  return std::ranges::any_of(files_.touches, [&](const auto& touch) {
    const int64_t seen_ns = touch.first + file_lag_ns_;
    return touch.second != host.id && seen_ns > since_ns && seen_ns <= now_;
  });
}

void World::begin_anew(Host& host, int64_t term) {
  for (const Host& other : hosts_) close(host, other.id);
  host.succession.reset();
  host.term = term;
  host.stage = host.next_stage = 0;
  host.their_stage.fill(0);  // stages of a new term are counted from 1 again
  host.members.clear();
  host.in_stage = host.opening = host.receives = host.has_state = host.watches = false;
  host.committed = host.whole = 0;
  host.records_from = 1;
  host.recorded = -1;
}

}  // namespace estrain::hosts_in_virtual_time
