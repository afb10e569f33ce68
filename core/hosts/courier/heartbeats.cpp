#include "core/hosts/courier/heartbeats.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::hosts {
namespace {

constexpr size_t kMostBytesBeforeBeats = 1 << 20;
constexpr int kTicks = beat_milliseconds / 10;
constexpr int kTicksBetweenTries = 1'000;
// Agents keep records until the run's files hold them. Agents hear of the files at least this often, counted in steps.
constexpr int64_t kRecordsBetweenBeats = comm::records_of_ring / 8;

// A WorkerBeat of each worker of this host.
std::string beats_of_own_workers(comm::JobMemory& memory, const HostPlan& plan) {
  const int64_t first = plan.workers_before(plan.own), now = monotonic_ns();
  std::string bytes;
  for (int64_t i = 0; i < std::ssize(plan.here().workers); ++i) {
    const comm::WorkerPulse& pulse = memory.pulse(WorkerRank(first + i));
    const WorkerBeat one = {.age_ns = now - pulse.beat_ns.load(),
                            .computing_ns = pulse.computing_ns.load(),
                            .mini_batches = pulse.mini_batches.load(),
                            .reading_ns = pulse.reading_ns.load(),
                            .measured_steps = pulse.measured_steps.load(),
                            .est_squares = pulse.est_squares.load(),
                            .mean_squares = pulse.mean_squares.load(),
                            .activity = static_cast<uint32_t>(pulse.activity.load()),
                            .reserved = 0};
    bytes.append(reinterpret_cast<const char*>(&one), sizeof one);
  }
  return bytes;
}

// Throws Fault::corrupt if this program knows no such activity.
comm::Activity activity_of(uint32_t number) {
  using enum comm::Activity;
  switch (const auto activity = static_cast<comm::Activity>(number)) {
    case idle:
    case computing:
    case evaluating:
    case reading:
    case meeting:
    case waiting_for_scribe:
    case waiting_for_room:
      return activity;
  }
  throw Error::make(Fault::corrupt, "a beat with the unknown activity {}", number);
}

// Takes the beats of another host of the plan, one beat for each of its workers.
void take_beats(comm::JobMemory& memory, const HostPlan& plan, size_t host, std::span<const WorkerBeat> beats) {
  int64_t rank = plan.workers_before(host);
  const int64_t now = monotonic_ns();
  for (const WorkerBeat& one : beats) {
    comm::WorkerPulse& pulse = memory.pulse(WorkerRank(rank++));
    pulse.beat(activity_of(one.activity), now - std::max<int64_t>(0, one.age_ns));
    pulse.computing_ns.store(one.computing_ns);
    pulse.mini_batches.store(one.mini_batches);
    pulse.reading_ns.store(one.reading_ns);
    pulse.measured_steps.store(one.measured_steps);
    pulse.est_squares.store(one.est_squares);
    pulse.mean_squares.store(one.mean_squares);
  }
}

// Workers of all hosts but the first.
int64_t workers_elsewhere(const HostPlan& plan) {
  return plan.workers_before(plan.hosts.size()) - std::ssize(plan.hosts[0].workers);
}

}  // namespace

// Returns the step up to which the run's files have all records, as far as this host knows.
int64_t Heartbeats::step_of_records() {
  return leads_ && stage_.plan() != nullptr ? step_of_files(holding_.memory(), stage_.plan()->step) : -1;
}

void Heartbeats::send_in_time() {
  if (++ticks_ % kTicks == 0 || step_of_records() >= holding_.records().written() + kRecordsBetweenBeats) send();
  if (ticks_ % kTicksBetweenTries == 0) links_.try_quiet();
}

void Heartbeats::send() {
  const int64_t written = step_of_records();
  if (leads_) holding_.records().note(written);
  const std::string bytes =
      !leads_ && stage_.plan() != nullptr ? beats_of_own_workers(holding_.memory(), *stage_.plan()) : "";
  for (const auto& [name, connection] : links_.to_beat()) {
    if (connection->bytes_waiting() > kMostBytesBeforeBeats) continue;
    const std::string own = name.empty() ? bytes : "";
    const uint64_t offset = written < 0 ? 0 : static_cast<uint64_t>(written);
    connection->send({beat, static_cast<uint32_t>(own.size()), stage_.number(), offset}, own);
  }
}

Landing Heartbeats::landing(const std::string& host, const net::FrameHead& head) {
  links_.note_beat(host);
  if (host.empty()) note_recorded(static_cast<int64_t>(head.offset));
  const auto index = stage_.index_of(host);
  if (!index || head.number != stage_.number() || head.bytes == 0) return {};
  const auto beats = std::make_shared<std::vector<WorkerBeat>>(stage_.plan()->hosts[*index].workers.size());
  if (head.bytes != beats->size() * sizeof(WorkerBeat)) throw Error(Fault::corrupt, "beats of other workers");
  return {std::as_writable_bytes(std::span(*beats)), [this, beats, index = *index, stage = head.number] {
            if (stage_.number() == stage) take(index, *beats);
          }};
}

void Heartbeats::note_recorded(int64_t step) {
  holding_.records().note(step);
  if (stage_.plan() != nullptr) holding_.records().let_go(holding_.memory());
}

void Heartbeats::take(size_t host, std::span<const WorkerBeat> beats) {
  if (!leads_ || stage_.is_aborted()) return;
  comm::JobMemory& memory = holding_.memory();
  take_beats(memory, *stage_.plan(), host, beats);
  if (counted_begun_ || stage_.workers_begun() == 0) return;
  const int64_t elsewhere = workers_elsewhere(*stage_.plan());
  if (stage_.workers_begun() < elsewhere) return;
  counted_begun_ = true;
  const int64_t now = monotonic_ns();
  for (int64_t worker = 0; worker < elsewhere; ++worker) memory.gate().note_started(now);
}

}  // namespace estrain::hosts
