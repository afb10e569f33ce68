#include "core/run/launch/launcher/processes/hang.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/clock.h"

namespace estrain::launch {
namespace {

using comm::Activity;

constexpr int64_t kSecond = 1'000'000'000;

Patience measured(int64_t longest_ns) {
  if (longest_ns == 0) return {kUnmeasuredNs, kBusyUnmeasuredNs};
  const int64_t still = 3 * longest_ns + 2 * kSecond;
  return {still, std::max(kBusyNs, 10 * still)};
}

bool waits(Activity activity) { return activity == Activity::meeting || activity == Activity::waiting_for_scribe; }

bool is_over(const Silence& silence, const Patience& patience) {
  return silence.since_work_ns > patience.still_ns || silence.since_beat_ns > patience.busy_ns;
}

}  // namespace

Patience patience_with(Activity activity, const Pace& pace) {
  const bool reads = activity == Activity::reading;
  if (pace.limit_ns > 0) {
    const int64_t limit = reads ? std::max(pace.limit_ns, kReadingNs) : pace.limit_ns;
    return {limit, limit};
  }
  if (activity == Activity::idle) return measured(0);
  const Patience patience = measured(activity == Activity::evaluating ? pace.evaluation_ns : pace.step_ns);
  if (waits(activity)) return {patience.still_ns, patience.still_ns};
  if (!reads) return patience;
  return {std::max(patience.still_ns, kReadingNs), std::max(patience.busy_ns, kBusyUnmeasuredNs)};
}

std::optional<std::string> why_hung(const Silence& silence, const Pace& pace) {
  const Patience patience = patience_with(silence.activity, pace);
  if (silence.left || waits(silence.activity) || !is_over(silence, patience)) return std::nullopt;
  const bool busy = silence.since_work_ns <= patience.still_ns;
  return fmt::format("{} for {:.1f} s{}",
                     silence.activity == Activity::reading      ? "waited for its data"
                     : silence.activity == Activity::evaluating ? "made no progress in an evaluation"
                                                                : "made no progress",
                     seconds(silence.since_beat_ns), busy ? ", though it took processor time" : "");
}

std::optional<std::string> why_lingering(const Silence& silence, int64_t since_abort_ns, const Pace& pace) {
  Patience patience = patience_with(silence.activity, pace);
  patience.still_ns += kLeavingNs;
  patience.busy_ns += kLeavingNs;
  const Silence since_abort{silence.activity, since_abort_ns, std::min(silence.since_work_ns, since_abort_ns)};
  if (silence.left || !is_over(since_abort, patience)) return std::nullopt;
  return fmt::format("did not leave the step that was given up for {:.1f} s", seconds(since_abort_ns));
}

bool all_wait(std::span<const Silence> workers, const Pace& pace) {
  const auto meets = [](const Silence& silence) { return silence.left || silence.activity == Activity::meeting; };
  if (!std::ranges::all_of(workers, meets) || std::ranges::all_of(workers, &Silence::left)) return false;
  const Silence newest{Activity::meeting, std::ranges::min(workers, {}, &Silence::since_beat_ns).since_beat_ns,
                       std::ranges::min(workers, {}, &Silence::since_work_ns).since_work_ns};
  return is_over(newest, patience_with(Activity::meeting, pace));
}

}  // namespace estrain::launch
