#include "core/state/comm/memory/commit_word.h"

#include <algorithm>

#include "core/state/comm/memory/futex.h"

namespace estrain::comm {

void CommitWord::begin_at(Step step, double lr) {
  words_.lr[step.value & 1].store(lr);
  words_.committed.store(step.value);
  words_.trained.store(step.value);
}

void CommitWord::note_whole(Step step, double lr) {
  words_.lr[step.value & 1].store(lr);
  words_.whole.store(step.value);
}

void CommitWord::commit(Step step) {
  words_.committed.store(step.value);
  words_.trained.store(step.value);
}

void CommitWord::commit_saved(Step step, double lr) {
  words_.lr[step.value & 1].store(lr);
  words_.committed.store(step.value);
}

int64_t CommitWord::repair(std::optional<Step> newest) {
  const Step whole(words_.whole.exchange(0));
  if (newest == whole && whole == committed().next()) words_.committed.store(whole.value);
  const int64_t committed = words_.committed.load();
  return std::max<int64_t>(0, words_.trained.exchange(committed) - committed);
}

std::optional<Step> StateHold::held() const {
  const int64_t held = words_.held_step.load();
  return held < 0 ? std::nullopt : std::optional(Step(held));
}

bool StateHold::is_writable(Step step) const {
  const std::optional<Step> held = this->held();
  return !held || (held->value & 1) != (step.value & 1);
}

template <typename Ready>
bool StateHold::wait(Ready&& ready) {
  for (;;) {
    const uint32_t releases = words_.releases.load();
    if (ready()) return true;
    if (words_.abort.load() != 0) return false;
    futex_wait(words_.releases, releases, glance);
  }
}

bool StateHold::wait_writable(Step step) {
  return wait([&] { return is_writable(step); });
}

bool StateHold::hold(Step step) {
  return wait([&] { return try_hold(step); });
}

bool StateHold::try_hold(Step step) {
  int64_t free = -1;
  return words_.held_step.compare_exchange_strong(free, step.value) || free == step.value;
}

void StateHold::release() {
  words_.held_step.store(-1);
  words_.releases.fetch_add(1);
  wake_all();
}

void StateHold::wake_all() { futex_wake_all(words_.releases); }

}  // namespace estrain::comm
