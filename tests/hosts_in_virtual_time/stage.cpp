// The actions of hosts in a stage: it opens, trains, loses hosts, and ends.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/hosts_in_virtual_time/world.h"

namespace estrain::hosts_in_virtual_time {
namespace {

constexpr int64_t kBetweenWordsNs = 1'000 * kMs, kBetweenOpeningLooksNs = 100 * kMs;
constexpr int64_t kLongestOpeningNs = 40'000 * kMs;
constexpr int64_t kWaitForReportsNs = 200 * kMs, kLongestDelayOfReportMs = 1'500;
constexpr int64_t kLongestStepNs = 6'000 * kMs;  // of the coordinator, awake: computing, and a loss noticed on the way

bool is_in(const std::vector<int>& list, int id) { return std::ranges::find(list, id) != list.end(); }

}  // namespace

bool World::leads(const Host& host) const {
  return host.alive && (host.role == Role::coordinator || host.role == Role::saving || host.role == Role::taking);
}

World::Host* World::coordinator() {
  const auto at =
      std::ranges::find_if(hosts_, [](const Host& host) { return host.alive && host.role == Role::coordinator; });
  return at == hosts_.end() ? nullptr : &*at;
}

void World::check_leaders() {
  if (std::ranges::count_if(hosts_, [&](const Host& host) { return leads(host); }) > 1)
    break_law(Law::one_leader, "two lead");
}

// Stages.

void World::reopen(Host& host) {
  host.reopens = false;
  if (host.role != Role::coordinator) return;
  host.in_stage = false;
  host.opening = true;
  host.opened.clear();
  host.next_stage = std::max(host.stage, host.next_stage) + 1;
  host.next_step = host.committed;
  host.next_members = {host.id};
  for (const Host& other : hosts_) {
    if (linked(host.id, other.id) && !host.left_out.contains(other.id)) host.next_members.push_back(other.id);
  }
  host.lost.clear();
  std::erase_if(host.reports, [&](const hosts::LossReport& report) { return !counts(host, report); });
  for (const int member : host.next_members) host.lost_for.erase(name(member));
  say(fmt::format("{} opens stage {} from step {} on {} hosts", name(host.id), host.next_stage, host.committed,
                  host.next_members.size()));
  for (const int other : host.next_members) {
    if (other == host.id) continue;
    send(host, other,
         [this, other, id = host.id, stage = host.next_stage, step = host.next_step, members = host.next_members,
          recorded = files_.recorded] {
           if (rules_.plan_tells_records) note_recorded(this->host(other), recorded);
           on_plan(this->host(other), id, stage, step, members);
         });
  }
  std::vector<std::string> others;
  for (const int other : host.next_members) {
    if (other != host.id) others.push_back(name(other));
  }
  host.patience.emplace(std::move(others));
  ambush();
  try_open(host);
  watch_opening(host, host.next_stage, now_);
}

hosts::OpeningWait World::waits_for(const Host& host) const {
  hosts::OpeningWait wait;
  for (const int other : host.next_members) {
    if (other != host.id && !linked(host.id, other)) wait.hosts.push_back(name(other));
  }
  if (host.receives) wait.hosts.emplace_back();
  return wait;
}

void World::tell_wait(Host& host, uint64_t stage) {
  if (!host.opening || host.next_stage != stage || host.leader < 0) return;
  push(now_ + kMs, [this, id = host.id, to = host.leader, stage, wait = waits_for(host)] {
    Host& hears = this->host(to);
    const bool arrives = hears.alive && hears.paused_until <= now_ && linked(id, to) && up_[index(id)][index(to)];
    if (arrives && hears.opening && hears.next_stage == stage && hears.patience) hears.patience->hear(name(id), wait);
  });
  at(host, kBetweenWordsNs, [this, id = host.id, stage] { tell_wait(this->host(id), stage); });
}

void World::watch_opening(Host& host, uint64_t stage, int64_t began) {
  if (host.role != Role::coordinator || !host.opening || host.next_stage != stage) return;
  if (now_ - began > kLongestOpeningNs && host.paused_until < began)
    return break_law(Law::openings_end, fmt::format("{} has waited with stage {}", name(host.id), stage));
  host.patience->hear("", waits_for(host));
  if (const auto found = rules_.unanswered(*host.patience, monotonic_time(now_))) {
    const auto named = std::ranges::find_if(hosts_, [&](const Host& one) { return name(one.id) == found->host; });
    if (named == hosts_.end() || host.opened.contains(named->id))
      return break_law(Law::openings_end, name(host.id) + " sets aside " + found->host + ", which has opened it");
    say(fmt::format("{} sets {} aside: {}", name(host.id), found->host, found->why));
    hit(Hit::set_aside);
    return linked(host.id, named->id) ? drop(host, named->id, true) : lose(host, named->id, true);
  }
  at(host, kBetweenOpeningLooksNs, [this, id = host.id, stage, began] { watch_opening(this->host(id), stage, began); });
}

void World::on_plan(Host& host, int from, uint64_t stage, int64_t step, const std::vector<int>& members) {
  if (host.succession || host.leader != from) return;
  host.in_stage = false;
  host.opening = true;
  host.next_stage = stage;
  host.next_step = step;
  host.next_members = members;
  if (!host.has_state || host.committed != step) {
    host.receives = true;
    send(host, from, [this, from, id = host.id, stage, step] {
      Host& sender = this->host(from);
      at(sender, random_.between(20, 400) * kMs, [this, from, id, stage, step] {
        send(this->host(from), id, [this, id, stage, step] {
          Host& receiver = this->host(id);
          if (!receiver.opening || receiver.next_stage != stage) return;
          if (!receiver.has_state) receiver.records_from = step + 1;
          receiver.committed = receiver.whole = step;
          receiver.has_state = true;
          receiver.receives = false;
          try_open(receiver);
        });
      });
    });
  }
  const auto own = std::ranges::find(members, host.id);
  for (auto other = own == members.end() ? own : own + 1; other != members.end(); ++other) connect(host, *other, false);
  try_open(host);
  tell_wait(host, stage);
}

void World::try_open(Host& host) {
  if (!host.opening || host.receives) return;
  for (const int other : host.next_members) {
    if (other != host.id && !linked(host.id, other)) return;
  }
  if (host.role == Role::coordinator) {
    if (host.opened.size() + 1 < host.next_members.size()) return;
    files_.term = {host.term, host.next_stage};
  }
  open(host);
}

void World::open(Host& host) {
  host.opening = false;
  host.in_stage = true;
  host.stage = host.next_stage;
  host.members = host.next_members;
  host.silent.clear();
  host.whole = host.ready = host.committed;
  host.advanced_ns = now_;
  if (host.role == Role::coordinator) watch_stage(host.id, host.term, host.stage);
  if (host.role != Role::coordinator) {
    send(host, host.leader, [this, leader = host.leader, id = host.id, stage = host.stage] {
      Host& lead = this->host(leader);
      if (!lead.opening || lead.next_stage != stage) return;
      lead.opened.insert(id);
      if (lead.patience) lead.patience->note_opened(name(id));
      try_open(lead);
    });
  }
  compute(host);
}

// Steps.

void World::watch_stage(int id, int64_t term, uint64_t stage) {
  Host& host = this->host(id);
  if (!host.alive || host.role != Role::coordinator || !host.in_stage || host.stage != stage || host.term != term)
    return;
  if (host.paused_until > host.advanced_ns) host.advanced_ns = std::max(host.paused_until, now_);
  if (now_ - host.advanced_ns > kLongestStepNs)
    return break_law(Law::stages_advance, fmt::format("stage {} of {} stands still", stage, name(id)));
  push(now_ + kBetweenOpeningLooksNs, [this, id, term, stage] { watch_stage(id, term, stage); });
}

void World::compute(Host& host) {
  at(host, random_.between(100, 400) * kMs, [this, id = host.id, stage = host.stage] {
    Host& one = this->host(id);
    if (!one.in_stage || one.stage != stage) return;
    one.ready = one.committed + 1;
    for (const int other : one.members) {
      if (other == id) continue;
      send(one, other, [this, id, other, stage, step = one.ready] {
        Host& hears = this->host(other);
        if (std::exchange(hears.their_stage[index(id)], stage) != stage) hears.their_done[index(id)] = 0;
        hears.their_ready[index(id)] = step;
        progress(hears);
      });
    }
    progress(one);
  });
}

void World::progress(Host& host) {
  if (!host.in_stage || host.ready != host.committed + 1) return;
  const int64_t next = host.ready;
  const auto all = [&](const auto& said) {
    return std::ranges::all_of(host.members, [&](int other) {
      return other == host.id || (host.their_stage[index(other)] == host.stage && said[index(other)] >= next);
    });
  };
  if (host.whole < next) {
    if (!all(host.their_ready)) return;
    host.whole = next;
    for (const int other : host.members) {
      if (other == host.id) continue;
      send(host, other, [this, id = host.id, other, stage = host.stage, next] {
        Host& hears = this->host(other);
        if (hears.their_stage[index(id)] != stage) return;
        hears.their_done[index(id)] = next;
        progress(hears);
      });
    }
  }
  if (all(host.their_done)) commit(host);
}

void World::commit(Host& host) {
  ++host.committed;
  host.advanced_ns = now_;
  for (const int other : host.members) {
    const Host& one = this->host(other);
    const bool together = one.alive && one.in_stage && one.stage == host.stage && one.term == host.term;
    if (together && std::abs(one.committed - host.committed) > 1)
      break_law(Law::one_step_apart, name(host.id) + " and " + name(other));
  }
  if (host.role != Role::coordinator) return compute(host);
  if (host.term < newest_term_ && host.committed > led_from_)
    break_law(Law::one_term, name(host.id) + " commits in an earlier term");
  committed_ = std::max(committed_, host.committed);
  at(host, random_.between(20 * kMs, slowest_write_ns_), [this, id = host.id, step = host.committed] {
    Host& one = this->host(id);
    if (one.role != Role::coordinator) return;
    files_.recorded = std::max(files_.recorded, step);
    for (const Host& other : hosts_) {
      if (!linked(id, other.id)) continue;
      send(one, other.id, [this, to = other.id, recorded = files_.recorded] {
        Host& hears = this->host(to);
        note_recorded(hears, recorded);
        hears.records_from = std::max(hears.records_from, hears.recorded);
      });
    }
  });
  if (host.committed >= total_steps_) return finish(host);
  compute(host);
}

void World::note_recorded(Host& host, int64_t step) { host.recorded = std::max(host.recorded, step); }

void World::abort(Host& host) {
  host.in_stage = host.opening = false;
  const uint64_t stage = std::max(host.stage, host.next_stage);
  for (const Host& other : hosts_) {
    if (!linked(host.id, other.id)) continue;
    send(host, other.id, [this, to = other.id, stage] {
      Host& hears = this->host(to);
      if (hears.opening && hears.next_stage <= stage) hears.opening = false;
      if (hears.stage <= stage) hears.in_stage = false;
    });
  }
}

// Losses.

void World::lose(Host& host, int other, bool silent) {
  say(fmt::format("{} loses {}{}", name(host.id), name(other), silent ? ", which is silent" : ""));
  if (host.succession) return happened(host, hosts::HostUnreached{name(other)});
  if (host.role == Role::coordinator) {
    host.lost.insert(other);
    silent |= host.paused_until != 0 && now_ - host.paused_until < kAfterOwnPauseNs;
    if (silent && is_in(host.members, other)) host.silent.insert(other);
    const auto see_the_run =
        std::ranges::count_if(host.silent, [&](int silent_one) { return this->host(silent_one).sees_run; });
    const bool may_be_left = 2 * host.silent.size() > host.members.size() && see_the_run > 0;
    if (rules_.must_give_up(host.members.size(), host.silent.size(), static_cast<size_t>(see_the_run))) {
      if (!may_be_left) break_law(Law::minority_gives_up, name(host.id) + " gives up");
      return give_up(host);
    }
    if (may_be_left) return break_law(Law::minority_gives_up, name(host.id) + " goes on");
    go_on_without_lost(host);
  } else if (host.role == Role::agent && other == host.leader) {
    orphan(host);
  } else if (host.role == Role::agent && host.leader >= 0) {
    at(host, apart_.chance(30) ? apart_.between(1, kLongestDelayOfReportMs) * kMs : 0, [this, id = host.id, other] {
      Host& from = this->host(id);
      if (from.leader < 0 || from.succession) return;
      send(from, from.leader, [this, leader = from.leader, id, other] { hear_report(this->host(leader), id, other); });
    });
  }
}

void World::go_on_without_lost(Host& host) {
  abort(host);
  if (!std::exchange(host.reopens, true))
    at(host, random_.between(20, 300) * kMs, [this, id = host.id] { reopen(this->host(id)); });
}

void World::hear_report(Host& host, int from, int other) {
  const auto is_mutual = [&](const hosts::LossReport& report) {
    return report.from == name(other) && report.lost.host == name(from);
  };
  if (std::ranges::any_of(host.reports, is_mutual)) hit(Hit::lost_each_other);
  const auto before = host.lost_for.find(name(from));
  if (before != host.lost_for.end() && before->second == name(other)) hit(Hit::reported_late);
  if (host.reports.empty()) host.reported_ns = now_;
  host.reports.push_back({name(from), {.host = name(other), .why = {}}});
  at(host, kWaitForReportsNs, [this, id = host.id] { judge_reports(this->host(id)); });
}

bool World::counts(const Host& host, const hosts::LossReport& report) const {
  if (rules_.outsiders_have_say) return true;
  const std::vector<int>& plan = host.opening ? host.next_members : host.members;
  const auto is_in_plan = [&](const std::string& one) {
    return std::ranges::any_of(plan, [&](int member) { return name(member) == one; });
  };
  const bool is_lost = std::ranges::any_of(host.lost, [&](int one) { return name(one) == report.from; });
  return !is_lost && is_in_plan(report.from) && is_in_plan(report.lost.host);
}

void World::judge_reports(Host& host) {
  if (host.role != Role::coordinator || host.reports.empty() || now_ - host.reported_ns < kWaitForReportsNs) return;
  std::vector<std::string> order;
  for (const int member : host.opening ? host.next_members : host.members) order.push_back(name(member));
  std::vector<hosts::LossReport> reports = std::exchange(host.reports, {});
  std::erase_if(reports, [&](const hosts::LossReport& report) { return !counts(host, report); });
  const std::vector<hosts::LostHost> leave = rules_.hosts_to_leave(reports, order);
  check_accusers(host, reports, leave);
  for (const Host& other : hosts_) {
    if (std::ranges::find(leave, name(other.id), &hosts::LostHost::host) != leave.end()) leave_out(host, other.id);
  }
}

// Reports of two hosts may come far apart: a host may report the host for whose report alone it has left.
void World::check_accusers(Host& host, const std::vector<hosts::LossReport>& reports,
                           const std::vector<hosts::LostHost>& leave) {
  for (const hosts::LostHost& one : leave) {
    std::set<std::string> accusers;
    for (const hosts::LossReport& report : reports) {
      if (report.lost.host == one.host) accusers.insert(report.from);
    }
    if (accusers.size() == 1) host.lost_for[one.host] = *accusers.begin();
  }
  for (const auto& [left, accuser] : host.lost_for) {
    const auto back = host.lost_for.find(accuser);
    if (back == host.lost_for.end() || back->second != left) continue;
    return break_law(Law::accusers_stay, left + " and " + accuser + " both leave");
  }
}

// The connection of a host that leaves for reports stays: its agent lives.
void World::leave_out(Host& host, int other) {
  say(fmt::format("{} leaves out {}, which others have lost", name(host.id), name(other)));
  host.left_out.insert(other);
  host.lost.insert(other);
  go_on_without_lost(host);
}

void World::give_up(Host& host) {
  say(name(host.id) + " gives up");
  hit(Hit::gave_up);
  abort(host);
  host.role = Role::saving;
  ambush();
  at(host, random_.between(50, 1'500) * kMs, [this, id = host.id] {
    files_.recorded = std::max(files_.recorded, this->host(id).committed);
    end(this->host(id));
  });
}

void World::finish(Host& host) {
  host.role = Role::saving;
  host.in_stage = false;
  at(host, random_.between(50, 1'500) * kMs, [this, id = host.id] {
    say("the run has ended");
    hit(Hit::finished);
    files_.ended = true;
    files_.owned = false;
    files_.recorded = this->host(id).committed;
    for (const Host& other : hosts_) {
      if (!linked(id, other.id)) continue;
      send(this->host(id), other.id, [this, to = other.id, id] {
        if (this->host(to).leader == id) end(this->host(to));
      });
    }
    end(this->host(id));
  });
}

void World::end(Host& host) {
  host.role = Role::over;
  host.in_stage = host.opening = false;
  host.succession.reset();
  if (files_.holder == host.id) files_.holder = -1;
  for (const Host& other : hosts_) close(host, other.id);
}

void World::kill(Host& host) {
  say(name(host.id) + " is killed");
  for (const Host& other : hosts_) close(host, other.id);
  host.alive = false;
  ++host.life;
  host.role = Role::over;
  host.succession.reset();
  host.in_stage = host.opening = host.reopens = host.watches = false;
  if (files_.holder == host.id) {
    push(now_ + lock_delay_ns_, [this, id = host.id] {
      if (files_.holder == id) files_.holder = -1;
    });
  }
}

void World::check_end() {
  for (const Host& one : hosts_) {
    const bool idle = one.role == Role::agent && !one.succession;
    if (one.alive && one.role != Role::over && !idle)
      return break_law(Law::everybody_ends, name(one.id) + " is still there");
    if (idle && one.alive && one.leader >= 0 && linked(one.id, one.leader))
      return break_law(Law::everybody_ends, name(one.id) + " waits for ever");
  }
}

}  // namespace estrain::hosts_in_virtual_time
