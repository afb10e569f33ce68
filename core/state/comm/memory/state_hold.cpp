#include "core/state/comm/memory/state_hold.h"

#include "core/state/comm/memory/futex.h"

namespace estrain::comm {
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
    futex_wait(words_.releases, releases, glance_ms);
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
