// The actions of hosts.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/hosts_in_virtual_time/world.h"

namespace estrain::hosts_in_virtual_time {
namespace {

constexpr int64_t kWatchNs = 35'000 * kMs, kTouchNs = 10'000 * kMs;
constexpr int64_t kAfterOwnPauseNs = 5'000 * kMs;
constexpr int64_t kLongestPauseMs = 25'000;
constexpr int64_t kLookNs = 100 * kMs, kClaimNs = 400 * kMs;

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
  ambush();
  try_open(host);
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
  if (host.role != Role::coordinator) {
    send(host, host.leader, [this, leader = host.leader, id = host.id, stage = host.stage] {
      Host& lead = this->host(leader);
      if (!lead.opening || lead.next_stage != stage) return;
      lead.opened.insert(id);
      try_open(lead);
    });
  }
  compute(host);
}

// Steps.

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
  if (host.succession) return host.succession->lose(name(other));
  if (host.role == Role::coordinator) {
    silent |= host.paused_until != 0 && now_ - host.paused_until < kAfterOwnPauseNs;
    if (silent && is_in(host.members, other)) host.silent.insert(other);
    const bool may_be_left = 2 * host.silent.size() > host.members.size();
    if (rules_.must_give_up(host.members.size(), host.silent.size())) {
      if (!may_be_left) break_law(Law::minority_gives_up, name(host.id) + " gives up");
      return give_up(host);
    }
    if (may_be_left) return break_law(Law::minority_gives_up, name(host.id) + " goes on");
    abort(host);
    if (!std::exchange(host.reopens, true))
      at(host, random_.between(20, 300) * kMs, [this, id = host.id] { reopen(this->host(id)); });
  } else if (host.role == Role::agent && other == host.leader) {
    orphan(host);
  } else if (host.role == Role::agent && host.leader >= 0) {
    send(host, host.leader, [this, leader = host.leader, other] { drop(this->host(leader), other, false); });
  }
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

// Succession.

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
                       .sees_locks = host.sees_locks,
                       .patience_ns = patience_ns_};
  std::set<std::string> reached;
  for (const int member : members) orphan.hosts.push_back(name(member));
  host.in_stage = host.opening = false;
  for (const Host& other : hosts_) {
    if (linked(host.id, other.id)) reached.insert(name(other.id));
  }
  say(fmt::format("{} is an orphan of stage {}, at step {}{}", name(host.id), host.stage, host.committed,
                  orphan.fit ? "" : ", not fit"));
  host.succession.emplace(rules_.orphan(std::move(orphan)), std::move(reached), now_);
  host.told.reset();
  look(host);
}

void World::look(Host& host) {
  if (!host.succession || host.role != Role::agent) return;
  const int64_t began = now_;
  at(host, kLookNs, [this, id = host.id, began] {
    if (this->host(id).told_ns <= began + kLookNs) look(this->host(id));
  });
  if (host.watches) return;
  const hosts::Succession::Step next = rules_.next(*host.succession, now_);
  const hosts::Claim& claim = host.succession->claim();
  if (host.told != claim || now_ - host.told_ns >= kClaimNs) {
    host.told = claim;
    host.told_ns = now_;
    for (const Host& other : hosts_) {
      if (!linked(host.id, other.id)) continue;
      send(host, other.id, [this, to = other.id, from = host.id, claim] {
        if (this->host(to).succession) this->host(to).succession->hear(name(from), claim);
      });
    }
  }
  if (next == hosts::Succession::Step::take_lease) return take_lease(host);
  if (next != hosts::Succession::Step::end) return;
  if (could_lead(host)) return break_law(Law::who_can_leads, name(host.id) + " ends: " + host.succession->why());
  say(fmt::format("{} ends: {}", name(host.id), host.succession->why()));
  end(host);
}

// By the truth, which the host may not know: that a host has all records that the files lack since the last takeover,
// or that no stage was open since, so that nobody has more than the newest checkpoint.
bool World::could_lead(const Host& host) const {
  if (blind_ || files_.holder >= 0 || !files_.owned || host.term != files_.term.term) return false;
  if (host.stage == 0) return files_.term.stage == 0;
  const bool has_records = host.succession->orphan().fit || host.records_from <= led_from_ + 1;
  return host.stage >= files_.term.stage && !host.receives && has_records;
}

void World::take_lease(Host& host) {
  if (!blind_ && rules_.respects_locks && files_.holder >= 0) return answer_lease(host, hosts::LeaseAnswer::held);
  const hosts::LeaseAnswer answer = rules_.judge_lease(files_.owned, {host.term, host.stage}, files_.term);
  if (answer == hosts::LeaseAnswer::over || !blind_) return answer_lease(host, answer);
  host.watches = true;
  at(host, kWatchNs, [this, id = host.id, since = now_] {
    Host& one = this->host(id);
    one.watches = false;
    if (!one.succession) return;
    answer_lease(one, sees_touch(one, since) ? hosts::LeaseAnswer::held
                                             : rules_.judge_lease(files_.owned, {one.term, one.stage}, files_.term));
  });
}

void World::answer_lease(Host& host, hosts::LeaseAnswer answer) {
  host.succession->answer(answer);
  if (answer == hosts::LeaseAnswer::taken) take_over(host);
  if (answer != hosts::LeaseAnswer::taken_at_checkpoint) return;
  host.receives = false;
  host.committed = host.whole = led_from_;
  host.records_from = led_from_ + 1;
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
  host.members = {host.id};
  host.silent.clear();
  host.left_out.clear();
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
  host.members.clear();
  host.in_stage = host.opening = host.receives = host.has_state = host.watches = false;
  host.committed = host.whole = 0;
  host.records_from = 1;
  host.recorded = -1;
}

// Disturbances.

void World::disturb() {
  strikes_left_ = static_cast<int>(random_.between(1, 7));
  const int64_t planned = random_.between(1, 4);
  for (int64_t i = 0; i < planned; ++i) push(random_.between(300, 20'000) * kMs, [this] { strike(); });
  if (strikes_about_first_step_) push(random_.between(300, 1'600) * kMs, [this] { strike_about_first_step(); });
}

// The other hosts join, receive the state, open their first stage, or commit its first steps.
void World::strike_about_first_step() {
  Host& first = hosts_[0];
  if (first.role != Role::coordinator) return;
  hit(Hit::about_first_step);
  switch (random_.between(1, 3)) {
    case 1:
      return kill(first);
    case 2:
      return cut_off(first, random_.between(200, 30'000) * kMs);
    default:
      return pause(first, random_.between(800, 5'000) * kMs);
  }
}

// In the middle of something.
void World::ambush() {
  if (strikes_left_ > 0 && random_.chance(25)) push(now_ + random_.between(0, 1'800) * kMs, [this] { strike(); });
}

World::Host* World::pick(bool alive) {
  Host& one = host(static_cast<int>(random_.between(0, std::ssize(hosts_) - 1)));
  return one.alive == alive ? &one : nullptr;
}

// Where locks are not seen, a host may not stand still for 30 s (core/hosts/PROTOCOL.md), pauses with less than five
// seconds between them taken together.
void World::stand_still(Host& host, int64_t until) {
  if (host.paused_until == 0 || now_ - host.paused_until >= kAfterOwnPauseNs) host.paused_from = now_;
  const int64_t longest = host.paused_from + kLongestPauseMs * kMs;
  host.paused_until = std::max(host.paused_until, blind_ ? std::min(until, longest) : until);
}

void World::cut_off(Host& host, int64_t ns) {
  hit(Hit::cut);
  say(name(host.id) + " is cut off");
  for (const Host& other : hosts_) {
    if (other.id == host.id) continue;
    set_path(host.id, other.id, false);
    set_path(other.id, host.id, false);
    push(now_ + ns, [this, a = host.id, b = other.id] {
      set_path(a, b, true);
      set_path(b, a, true);
    });
  }
}

void World::pause(Host& host, int64_t ns) {
  hit(Hit::pause);
  say(name(host.id) + " stands still");
  stand_still(host, now_ + ns);
  for (const Host& other : hosts_) judge_hearing(other.id, host.id);
  push(host.paused_until, [this, id = host.id] {
    for (const Host& other : hosts_) judge_hearing(other.id, id);
  });
}

void World::strike() {
  if (strikes_left_ <= 0) return;
  --strikes_left_;
  Host* lead = coordinator();
  Host* one = random_.chance(50) && lead != nullptr ? lead : pick(true);
  const int64_t kind = random_.between(1, 100);
  if (kind <= 5) {  // a user wants a host back that was lost
    Host* lost = pick(true);
    if (lead == nullptr || lost == nullptr || lost == lead) return;
    hit(Hit::call);
    lead->left_out.erase(lost->id);
    connect(*lead, lost->id, true);
    if (!std::exchange(lead->reopens, true)) at(*lead, 700 * kMs, [this, id = lead->id] { reopen(host(id)); });
    return;
  }
  if (kind <= 20) {
    one = pick(false);
    if (one == nullptr || lead == nullptr) return;
    hit(Hit::join);
    begin_anew(*one, 0);
    one->alive = true;
    ++one->life;
    one->paused_until = 0;
    one->role = Role::agent;
    one->leader = -1;
    lead->left_out.erase(one->id);
    connect(*lead, one->id, true);
    if (!std::exchange(lead->reopens, true)) at(*lead, 700 * kMs, [this, id = lead->id] { reopen(host(id)); });
    return;
  }
  if (one == nullptr) return;
  if (kind <= 50) {
    hit(Hit::kill);
    return kill(*one);
  }
  const int64_t back = random_.between(200, 30'000) * kMs;
  if (kind <= 67) {
    cut_off(*one, back);
  } else if (kind <= 77) {
    const Host* other = pick(true);
    if (other == nullptr || other == one) return;
    hit(Hit::one_way_cut);
    say(fmt::format("nothing of {} reaches {}", name(one->id), name(other->id)));
    set_path(one->id, other->id, false);
    push(now_ + back, [this, a = one->id, b = other->id] { set_path(a, b, true); });
  } else if (kind <= 90) {
    pause(*one, random_.between(800, kLongestPauseMs) * kMs);
  } else if (lead != nullptr && one != lead) {
    hit(Hit::leave);
    lead->left_out.insert(one->id);
    abort(*lead);
    if (!std::exchange(lead->reopens, true)) at(*lead, 100 * kMs, [this, id = lead->id] { reopen(host(id)); });
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
