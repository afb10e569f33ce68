// Time and network.

#include "tests/hosts_in_virtual_time/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace estrain::hosts_in_virtual_time {
namespace {

constexpr int64_t kSilenceNs = 1'500 * kMs;
constexpr int64_t kHorizonNs = 1'000'000 * kMs;
constexpr int64_t kCalmNs = 40'000 * kMs;

}  // namespace

World::World(uint64_t seed, const Rules& rules, std::FILE* trace)
    : random_(seed), strikes_about_first_step_(seed % 7 == 3), apart_(seed + 3), rules_(rules), trace_(trace) {
  const auto count = static_cast<size_t>(random_.between(2, kMostHosts - 1));
  hosts_.resize(count);
  for (size_t i = 0; i < count; ++i) hosts_[i].id = static_cast<int>(i);
  for (auto& row : up_) row.fill(true);
  blind_ = random_.chance(25);
  slow_network_ = random_.chance(30);
  lock_delay_ns_ = random_.chance(30) ? random_.between(1, 15'000) * kMs : kMs;
  file_lag_ns_ = random_.between(0, 15'000) * kMs;
  slowest_write_ns_ = random_.chance(30) ? 6'000 * kMs : 600 * kMs;
  patience_ns_ = (blind_ ? 180'000 : 100'000) * kMs;
  total_steps_ = random_.between(30, 80);
  if (seed % 11 == 4) halves_.emplace(seed + 2);  // the other schedules stay what they are
  if (seed % 5 != 2) return;
  Random apart(seed + 1);  // the other schedules stay what they are
  for (Host& host : hosts_) host.sees_run = host.id == 0 || apart.chance(50);
}

Outcome World::run() {
  Host& first = hosts_[0];
  first.role = Role::coordinator;
  first.has_state = true;
  first.term = 1;
  files_.holder = blind_ ? -1 : 0;
  for (const Host& other : hosts_) {
    if (other.id != 0) connect(first, other.id, true);
  }
  touch(first);
  at(first, 300 * kMs, [this] { reopen(hosts_[0]); });
  for (const Host& other : hosts_) {
    if (!other.sees_run) push(500 * kMs, [this, id = other.id] { register_now_and_then(id); });
  }
  disturb();
  push(kCalmNs, [this] {
    strikes_left_ = 0;
    for (const Host& a : hosts_) {
      for (const Host& b : hosts_) set_path(a.id, b.id, true);
    }
  });
  while (!queue_.empty() && !broken_ && queue_.top().ns < kHorizonNs) {
    const auto act = queue_.top().act;
    now_ = queue_.top().ns;
    queue_.pop();
    ++outcome_.events;
    act();
  }
  if (!broken_) check_end();
  return outcome_;
}

void World::say(const std::string& text) {
  if (trace_ != nullptr) fmt::print(trace_, "{:9.3f} {}\n", static_cast<double>(now_) * 1e-9, text);
}

void World::break_law(Law law, std::string what) {
  if (std::exchange(broken_, true)) return;
  say("LAW " + std::to_string(static_cast<int>(law)) + ": " + what);
  outcome_.violations.push_back({law, std::move(what)});
}

void World::push(int64_t ns, std::function<void()> act) { queue_.push({ns, order_++, std::move(act)}); }

void World::at(Host& host, int64_t delay_ns, std::function<void()> act) {
  push(now_ + delay_ns, [this, id = host.id, life = host.life, act = std::move(act)] { when_awake(id, life, act); });
}

void World::when_awake(int id, int life, std::function<void()> act) {
  const Host& one = host(id);
  if (!one.alive || one.life != life) return;
  if (one.paused_until <= now_) return act();
  push(one.paused_until, [this, id, life, act = std::move(act)] { when_awake(id, life, act); });
}

// Letters of a connection arrive in order, or not at all.
void World::send(Host& from, int to, std::function<void()> act) {
  const int64_t connection = links_[index(from.id)][index(to)];
  if (connection == 0) return;
  letters_[index(from.id)][index(to)].push_back({connection, std::move(act)});
  int64_t& last = last_delivery_[index(from.id)][index(to)];
  last = std::max(last, now_ + delay());
  push(last, [this, from = from.id, to] { deliver(from, to); });
  note_unacknowledged(from.id, to);
}

// The systems of both hosts acknowledge whatever arrives, whether the processes stand still or not.
void World::note_unacknowledged(int from, int to) {
  int64_t& since = unacknowledged_since_[index(from)][index(to)];
  const bool is_acknowledged = up_[index(from)][index(to)] && up_[index(to)][index(from)];
  const bool has_sent = !letters_[index(from)][index(to)].empty();
  if (is_acknowledged) since = 0;
  if (is_acknowledged || !has_sent || since != 0 || !rules_.notices_unacknowledged) return;
  since = now_ + 1;
  const int64_t connection = links_[index(from)][index(to)], began = since;
  at(host(from), kSilenceNs + random_.between(0, 30) * kMs, [this, from, to, began, connection] {
    int64_t& still = unacknowledged_since_[index(from)][index(to)];
    if (still != began) return;
    still = 0;
    if (links_[index(from)][index(to)] != connection || connection == 0) return;
    hit(Hit::unacknowledged);
    drop(host(from), to, true);
  });
}

void World::deliver(int from, int to) {
  std::deque<Letter>& waiting = letters_[index(from)][index(to)];
  if (waiting.empty()) return;
  const Host& receiver = host(to);
  if (!receiver.alive || links_[index(to)][index(from)] != waiting.front().connection) return waiting.pop_front();
  if (!up_[index(from)][index(to)]) return push(now_ + 50 * kMs, [this, from, to] { deliver(from, to); });
  if (receiver.paused_until > now_) return push(receiver.paused_until, [this, from, to] { deliver(from, to); });
  const Letter letter = std::move(waiting.front());
  waiting.pop_front();
  letter.act();
}

void World::connect(Host& from, int to, bool leads) {
  if (to == from.id || linked(from.id, to)) return;
  const int64_t term = from.term;
  const int id = from.id, life = from.life;
  const auto fail = [this, id, life, to] {
    push(now_ + 100 * kMs, [this, id, life, to] {
      when_awake(id, life, [this, id, to] {
        if (!linked(id, to)) lose(host(id), to, false);
      });
    });
  };
  if (!host(to).alive || !up_[index(id)][index(to)] || !up_[index(to)][index(id)]) return fail();
  at(host(to), delay(), [this, id, life, to, leads, term, fail] {
    Host &other = host(to), &caller = host(id);
    if (!caller.alive || caller.life != life || caller.role == Role::over || other.role != Role::agent) return fail();
    if (caller.term != term) return fail();
    const hosts::PeerAnswer answer = rules_.judge_peer(other.term, other.succession.has_value(), term, leads);
    if (answer == hosts::PeerAnswer::turn_away) return fail();
    const bool has_left = other.succession && term == other.term;
    if (leads && (term < other.term || has_left))
      return break_law(Law::no_old_orders, name(to) + " follows " + name(id) + " again");
    if (answer == hosts::PeerAnswer::begin_anew) begin_anew(other, term);
    if (leads) other.leader = id;
    if (leads && !blind_) other.sees_locks = true;
    // Somebody on the way has led it elsewhere, or the other end has let go of it.
    if (halves_ && !leads && halves_->chance(30)) {
      say(fmt::format("{} is connected to {}, and not the other way", name(id), name(to)));
      hit(Hit::half_connections);
      links_[index(id)][index(to)] = ++connections_;
      return try_open(caller);
    }
    if (linked(to, id)) close(other, id);
    links_[index(id)][index(to)] = links_[index(to)][index(id)] = ++connections_;
    judge_hearing(id, to);
    judge_hearing(to, id);
    try_open(caller);
    try_open(other);
  });
}

// The other end finds out as it would: by a last packet, or by silence.
void World::close(Host& host, int to) {
  if (!linked(host.id, to)) return;
  send(host, to, [this, from = host.id, to] { drop(this->host(to), from, false); });
  links_[index(host.id)][index(to)] = 0;
}

void World::drop(Host& host, int other, bool silent) {
  if (!linked(host.id, other)) return;
  close(host, other);
  lose(host, other, silent);
}

bool World::has_coordinator(const Host& host) const {
  return host.role == Role::agent && host.leader >= 0 && linked(host.id, host.leader);
}

bool World::expects_beats(int ear, int mouth) {
  const Host& one = host(ear);
  return rules_.expects_beats(leads(one), has_coordinator(one), one.leader == mouth);
}

// A host with a coordinator sends beats to an orphan because it hears the orphan's.
bool World::hears_beats(int ear, int mouth) {
  const Host& one = host(mouth);
  if (!up_[index(mouth)][index(ear)] || one.paused_until > now_) return false;
  const Host& hears = host(ear);
  const bool asks = up_[index(ear)][index(mouth)] &&
                    hosts::exchanges_beats(leads(hears), has_coordinator(hears), hears.leader == mouth);
  return rules_.sends_beats(leads(one), has_coordinator(one), one.leader == ear, asks ? 0ms : 1h);
}

void World::judge_all_hearing(int id) {
  for (const Host& other : hosts_) {
    judge_hearing(id, other.id);
    judge_hearing(other.id, id);
  }
}

void World::judge_hearing(int ear, int mouth) {
  int64_t& since = deaf_since_[index(ear)][index(mouth)];
  if (!expects_beats(ear, mouth) || hears_beats(ear, mouth)) {
    since = 0;
    return;
  }
  if (since == 0) since = now_ + 1;
  const int64_t began = since;
  push(std::max(now_, host(ear).paused_until) + kSilenceNs + random_.between(0, 30) * kMs, [this, ear, mouth, began] {
    if (deaf_since_[index(ear)][index(mouth)] != began || !linked(ear, mouth) || !host(ear).alive) return;
    if (host(ear).paused_until > now_) return judge_hearing(ear, mouth);
    const bool is_reached = up_[index(ear)][index(mouth)] && up_[index(mouth)][index(ear)];
    if (is_reached && linked(mouth, ear) && host(mouth).alive && host(mouth).paused_until == 0)
      return break_law(Law::living_are_kept, name(ear) + " hears nothing of " + name(mouth));
    drop(host(ear), mouth, true);
  });
}

void World::set_path(int from, int to, bool up) {
  up_[index(from)][index(to)] = up;
  judge_hearing(to, from);
  judge_hearing(from, to);  // beats of an orphan ask for beats
  note_unacknowledged(from, to);
  note_unacknowledged(to, from);
}

}  // namespace estrain::hosts_in_virtual_time
