#include "core/pool/daemon/chronicle.h"

#include "core/base/clock.h"
#include "core/base/visible_text.h"
#include "core/pool/overview.h"

namespace estrain::pool {
namespace {

constexpr double kSaveEvery = 1;  // s, if only figures have changed, or the disk refused the last time

}  // namespace

void Chronicle::save_all(const dispatch::State& state) {
  saved_ = 0;
  save(state);
}

void Chronicle::save(const dispatch::State& state) {
  const double now = wall_seconds();
  const bool was_just_now = saved_ <= now && now < saved_ + kSaveEvery;  // the clock may have been set back
  if (was_just_now && (lines_.empty() || is_behind_)) return;
  saved_ = now;
  try {
    ledger_.save(state, lines_, ends_);
    lines_.clear();
    ends_.clear();
    if (is_behind_) fmt::print("pool: the queue is written again\n");
    is_behind_ = false;
  } catch (const Error& error) {
    if (!is_behind_)
      fmt::print(stderr, "warning: the queue cannot be written: {}; it is tried again\n", error.message());
    is_behind_ = true;
  }
}

void Chronicle::note(const dispatch::WriteHistory& note, const dispatch::State& state) {
  lines_.push_back({wall_seconds(), note.job, note.what, note.devices, note.reason, note.names});
  const auto job = state.jobs.find(note.job);
  const std::string who =
      job == state.jobs.end() ? "pool" : fmt::format("job {} ({})", note.job, job->second.request.name);
  fmt::print("{} {}: {}, {} devices: {}\n", utc_timestamp(), visible_in_line(who), note.what, note.devices,
             visible_in_line(note.reason + in_brackets(note.names)));
  std::fflush(stdout);
}

}  // namespace estrain::pool
