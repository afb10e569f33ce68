// Hosts die, stand still and lose sight of each other.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/hosts_in_virtual_time/world.h"

namespace estrain::hosts_in_virtual_time {
namespace {

constexpr int64_t kLongestPauseMs = 25'000;

}  // namespace

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

}  // namespace estrain::hosts_in_virtual_time
