// Workers, their stage, the state they write, and the scribe that saves it.

#include <algorithm>

#include "tests/virtual_time/world.h"

namespace estrain::virtual_time {

void World::start_process(WorkerId id, const placement::Device& device) {
  newest_ = std::max(newest_, id);
  processes_[id] = Process{device};
  later(random_.between(5, 200) * kMs, What::worker_ready, id.value);
}

// A hung worker sends nothing; a dead worker's last message is lost.
void World::on_ready(WorkerId id) {
  const auto at = processes_.find(id);
  if (at == processes_.end() || !at->second.alive || at->second.hung) return;
  decide(decisions::WorkerReady{id});
}

// Now and then the GPUs cannot meet, or take longer than the launcher waits.
void World::on_prepared(WorkerId id, int64_t ticket) {
  const auto at = processes_.find(id);
  if (at == processes_.end() || !at->second.alive || at->second.hung) return;
  decide(decisions::ExchangePrepared{id, ticket, ticket == exchange_asked_ && !random_.chance(20)});
}

void World::open_stage() {
  for (const auto& [id, process] : processes_) {
    if (process.alive && process.in_loop)
      break_law(Law::stage_apart, fmt::format("worker {} is still in the loop of stage {}", id, stage_.number));
  }
  if (!mended_) break_law(Law::stage_apart, "the stage before was aborted and is not mended");
  stage_ = SimulatedStage{.number = stage_.number + 1, .open = true, .begun_at = kNoTime, .stopped = stage_.stopped};
  int64_t next = 0;
  for (size_t rank = 0; rank < job_.workers.size(); ++rank) {
    const decisions::Member& member = job_.workers[rank];
    if (member.ests.begin.value != next || member.ests.size() < 1 || member.rank != static_cast<int64_t>(rank))
      break_law(Law::shares_complete, fmt::format("worker {} has ESTs {} to {} in rank {}", member.id,
                                                  member.ests.begin, member.ests.end, member.rank));
    next = member.ests.end.value;
    const auto at = processes_.find(member.id);
    if (at == processes_.end() || !at->second.alive) continue;
    at->second.in_loop = true;
    at->second.begun = false;
    later(random_.between(1, 20) * kMs, What::worker_begun, member.id.value, stage_.number);
  }
  if (next != job_.ests) break_law(Law::shares_complete, fmt::format("{} of {} ESTs have a place", next, job_.ests));
  later(step_time_ + 20 * kMs, What::step, stage_.number);
}

void World::on_begun(WorkerId id, int64_t stage) {
  const auto at = processes_.find(id);
  if (at == processes_.end() || !at->second.in_loop || stage != stage_.number) return;
  at->second.begun = true;
  stage_.begun += 1;
  stage_.begun_at = now_;
}

void World::abort_stage() {
  stage_.aborted = true;
  mended_ = false;
  leave_all(false);
}

// A hung worker does not leave. After an abort, no worker learns that the run is finished.
void World::leave_all(bool finished) {
  for (const auto& [id, process] : processes_) {
    if (process.alive && process.in_loop && !process.hung)
      later(random_.between(0, 10) * kMs, What::worker_out, id.value, stage_.number, finished);
  }
}

void World::on_out(WorkerId id, int64_t stage, bool finished) {
  const auto at = processes_.find(id);
  if (at == processes_.end() || !at->second.in_loop || at->second.hung || stage != stage_.number) return;
  at->second.in_loop = false;
  later(random_.between(0, 20) * kMs, What::word_of_leave, id.value, 0, finished);
}

void World::on_word(WorkerId id, bool finished) {
  const auto at = processes_.find(id);
  if (at != processes_.end() && at->second.alive) decide(decisions::WorkerLeft{id, finished});
}

// One step of all workers if all are present; otherwise the stage waits until it is aborted.
void World::on_step(int64_t stage) {
  if (stage != stage_.number || !stage_.open || stage_.aborted || stage_.stalled) return;
  for (const decisions::Member& member : job_.workers) {
    const auto at = processes_.find(member.id);
    if (at == processes_.end() || !at->second.alive || at->second.hung || !at->second.begun) return;
  }
  const bool done = trained_ == total_;
  if (!done && held_ >= 0 && (held_ & 1) == ((trained_ + 1) & 1)) {  // the scribe has not read that copy yet
    waits_for_hold_ = true;
    return;
  }
  if (!done) trained_ += 1;
  if (trained_ % commits_each_ == 0 || trained_ == total_ || stage_.pausing) committed_ = trained_;
  if (trained_ == total_ || stage_.pausing) {
    stage_.open = false;
    stage_.stopped = now_;
    return leave_all(trained_ == total_);
  }
  later(step_time_ + random_.between(0, 2) * kMs, What::step, stage);
}

void World::release_hold() {
  held_ = -1;
  if (!std::exchange(waits_for_hold_, false)) return;
  later(0ns, What::step, stage_.number);
}

void World::die(WorkerId id) {
  const auto at = processes_.find(id);
  if (at == processes_.end() || !at->second.alive) return;
  at->second.alive = at->second.in_loop = false;
  later(random_.between(0, 50) * kMs, What::end_noticed, id.value);
}

bool World::reap(WorkerId id) {
  const auto at = processes_.find(id);
  if (at == processes_.end()) return true;
  at->second.alive = at->second.in_loop = false;
  if (at->second.lingers) return false;
  if (random_.chance(3)) {
    at->second.lingers = true;
    later(random_.between(1, 10) * 1000 * kMs, What::lingerer_ends, id.value);
    return false;
  }
  processes_.erase(at);
  return true;
}

// Reports an ended process as the launcher does.
void World::lose(WorkerId id) {
  if (!processes_.contains(id)) return;
  const bool lingers = !reap(id);
  const decisions::Member* member = find_member(job_, id);
  if (member == nullptr) return;
  if (is_leaving(job_, id)) {
    if (!lingers) decide(decisions::WorkerEnded{id});
    return;
  }
  if (job_.phase == decisions::RunPhase::over) return;
  decide(decisions::WorkerLost{.worker = id,
                               .verdict = verdict(),
                               .what = "ended",
                               .error = Error(Fault::peer, "a worker ended"),
                               .log = "log",
                               .last_beat = now_,
                               .lingers = lingers});
}

decisions::FaultVerdict World::verdict() {
  static constexpr double waits[] = {0, 0, 0.5, 5};
  return {.cause = "made up",
          .fault_class = "engine",
          .description = "made up",
          .retry = random_.chance(96),
          .backoff_seconds = waits[random_.between(0, 3)],
          .other_device = random_.chance(8),
          .less_memory = random_.chance(5)};
}

// Also for a leaving worker.
void World::on_hang_noticed(WorkerId id) {
  const auto at = processes_.find(id);
  if (at == processes_.end() || !at->second.alive || !at->second.hung) return;
  decide(decisions::WorkerHangs{id, "hangs"});
}

void World::start_saving(int64_t step) {
  if (!scribe_.alive) return;
  scribe_.busy_until = std::max(scribe_.busy_until, now_) + random_.between(5, 300) * kMs;  // one after another
  later(scribe_.busy_until - now_, What::saved, scribe_.number, step);
}

void World::on_saved(int64_t scribe, int64_t step) {
  if (scribe != scribe_.number || !scribe_.alive) return;
  if (held_ == step) release_hold();
  if (disk_full_) {
    decide(decisions::NotSaved{Step(step), "no space left on device", true, 4096});
  } else {
    decide(decisions::StateSaved{Step(step)});
  }
}

void World::lose_scribe(int64_t scribe) {
  if (scribe != scribe_.number || scribe_.noticed) return;
  scribe_.noticed = true;
  decide(decisions::ScribeLost{verdict(), random_.chance(20), "SIGKILL (signal 9)", "scribe.log"});
}

}  // namespace estrain::virtual_time
