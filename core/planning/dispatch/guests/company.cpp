// How long a job's steps take beside guests, against the job's own steps from before.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/turn.h"

namespace estrain::dispatch {
namespace {

// A launcher tells the mean of at most so many steps (run/launch/profiling/speed_meter.h), and some cold ones.
constexpr int64_t kStepsTold = 25;
constexpr double kWindow = 5;       // s, of a window at least
constexpr int64_t kSlowInARow = 3;  // windows
constexpr int64_t kLooksOfMean = 10;

int64_t devices_of_others(const State& state, JobId id) {
  std::set<std::string> hosts;
  for (const Slot& slot : state.slots) {
    if (slot.holder == id) hosts.insert(slot.host());
  }
  return std::ranges::count_if(state.slots, [&](const Slot& slot) {
    return slot.holder != 0 && slot.holder != id && hosts.contains(slot.host());
  });
}

Job* newest_guest_of(State& state, JobId id) {
  Job* newest = nullptr;
  for (const Slot& slot : state.slots) {
    if (slot.holder != id || slot.guest == 0) continue;
    Job& guest = state.jobs.at(slot.guest);
    if (newest == nullptr || guest.seated > newest->seated) newest = &guest;
  }
  return newest;
}

void set_apart(DispatchTurn& turn, Job& host, Job& guest, double beside) {
  guest.not_beside.push_back(host.id);
  turn.state.underway.guests_are_stale = true;
  turn.act(note_of(
      guest, "parted",
      fmt::format("a step of job {} took {:.1f} % longer beside it, in {} windows in a row, and {:.4g} % "
                  "are tolerated: the two are not paired again",
                  host.id, 100 * (beside / host.company.own_seconds - 1), kSlowInARow, 100 * turn.state.tolerance)));
  watch_anew(host);
}

// Adds a look to the window under way.
void judge(DispatchTurn& turn, Job& host, Job& guest, const Progressed& event) {
  Company& company = host.company;
  if (company.window_step < 0) company.window_step = event.step + kStepsTold;
  if (!(event.step_seconds > 0) || !(company.own_seconds > 0) || event.step < company.window_step) return;
  if (company.window_looks++ == 0) company.window_from = turn.now;
  company.window_seconds += event.step_seconds;
  if (turn.now < company.window_from + kWindow || event.step < company.window_step + kStepsTold) return;
  const double beside = company.window_seconds / static_cast<double>(company.window_looks);
  const bool is_slow = beside > company.own_seconds * (1 + turn.state.tolerance);
  const int64_t slow = is_slow ? company.slow + 1 : 0;
  watch_anew(host);
  company.window_step = event.step;
  company.slow = slow;
  if (slow >= kSlowInARow) set_apart(turn, host, guest, beside);
}

}  // namespace

bool teaches_nothing(const State& state, const Job& job) {
  const auto is_shared = [&](const Slot& slot) { return slot.holder == job.id && slot.guest != 0; };
  return job.request.background || std::ranges::any_of(state.slots, is_shared);
}

void watch_anew(Job& host) {
  Company& company = host.company;
  host.seen_at = 0;
  company.window_step = -1;
  company.window_looks = company.slow = 0;
  company.window_seconds = 0;
}

bool look_beside_guests(DispatchTurn& turn, Job& job, const Progressed& event) {
  Company& company = job.company;
  const int64_t others = devices_of_others(turn.state, job.id);
  if (company.devices != event.devices || company.others != others)
    company = {.devices = event.devices, .others = others, .shared_step = company.shared_step};
  if (Job* guest = newest_guest_of(turn.state, job.id)) {
    company.shared_step = event.step;
    judge(turn, job, *guest, event);
    return true;
  }
  if (company.shared_step >= 0 && event.step < company.shared_step + kStepsTold) return true;
  if (!(event.step_seconds > 0)) return false;
  ++company.looks;
  company.own_seconds +=
      (event.step_seconds - company.own_seconds) / static_cast<double>(std::min(company.looks, kLooksOfMean));
  return false;
}

}  // namespace estrain::dispatch
