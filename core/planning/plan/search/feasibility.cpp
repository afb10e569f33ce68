#include "core/planning/plan/search/feasibility.h"

#include <algorithm>
#include <functional>

#include "core/base/error.h"
#include "core/planning/plan/search/fleet.h"

namespace estrain::plan {
namespace {

constexpr const char* kMeasureAgain = "have the job profiled again";

// Outside this range products and quotients of times could overflow. No real device or job comes near.
constexpr double kLeast = 1e-100, kMost = 1e100;
constexpr int64_t kMostDevices = 1'000'000'000;

bool reasonable(double value) { return value >= kLeast && value <= kMost; }

void check_coefficient(const char* name, double value) {
  if (value >= 0 && value <= kMost) return;
  throw Error::make(Fault::infeasible, "exchange: {} is {} s: must be finite and at least 0", name, value)
      .advise(kMeasureAgain);
}

void check_group(const DeviceGroup& group) {
  if (group.count < 0 || group.count > kMostDevices) {
    throw Error::make(Fault::infeasible, "{}: {} devices: the count must be at least 0 and at most {}", group.kind,
                      group.count, kMostDevices)
        .advise("give the number of available devices");
  }
  if (group.most_ests < 0) {
    throw Error::make(Fault::infeasible, "{}: room for {} ESTs: must be at least 0", group.kind, group.most_ests)
        .advise("give the number of ESTs that fit into the device's memory, or 0");
  }
  if (!reasonable(group.mini_batches_per_second)) {
    throw Error::make(Fault::infeasible, "{}: {} mini-batches per second: must be a positive finite number", group.kind,
                      group.mini_batches_per_second)
        .advise(kMeasureAgain);
  }
}

void check_share(const std::vector<DeviceGroup>& groups, size_t worker, const WorkerShare& share) {
  if (share.group < 0 || share.group >= std::ssize(groups)) {
    throw Error::make(Fault::infeasible, "worker {}: there is no device group {}", worker, share.group)
        .advise(fmt::format("groups are numbered 0 to {}", std::ssize(groups) - 1));
  }
  const DeviceGroup& group = groups[static_cast<size_t>(share.group)];
  if (share.ests < 1) {
    throw Error::make(Fault::infeasible, "worker {} has {} ESTs: every worker must host at least one", worker,
                      share.ests)
        .advise("leave the device out");
  }
  if (share.ests > group.most_ests) {
    throw Error::make(Fault::infeasible, "worker {}: {} ESTs do not fit into the memory of {}, which takes {}", worker,
                      share.ests, group.kind, group.most_ests)
        .advise("give it fewer ESTs, or the job more devices");
  }
}

std::string named(int64_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

// Returns the ESTs that fit on the roomiest `workers` devices of a set; no overflow, as the job's ESTs are the limit.
int64_t room_of(const std::vector<DeviceGroup>& groups, const std::vector<int64_t>& set, int64_t workers) {
  std::vector<DeviceGroup> roomiest;
  for (const int64_t index : set) roomiest.push_back(groups[static_cast<size_t>(index)]);
  std::ranges::sort(roomiest, std::greater(), &DeviceGroup::most_ests);
  int64_t room = 0;
  for (const DeviceGroup& group : roomiest) {
    const int64_t devices = std::min(group.count, workers);
    room += devices * group.most_ests;
    workers -= devices;
  }
  return room;
}

}  // namespace

void check_job(const PlannedJob& job) {
  if (job.ests < 1) {
    throw Error::make(Fault::infeasible, "{} ESTs: a job has at least one", job.ests).advise("give at least 1 EST");
  }
  check_coefficient("base", job.exchange.base);
  check_coefficient("per_worker", job.exchange.per_worker);
  check_coefficient("per_sum", job.exchange.per_sum);
  check_coefficient("update", job.exchange.update);
  for (size_t i = 0; i < job.crowding.size(); ++i) {
    if (reasonable(job.crowding[i])) continue;
    throw Error::make(Fault::infeasible, "crowding of {} is {}: must be a positive finite number",
                      named(static_cast<int64_t>(i) + 1, "worker"), job.crowding[i])
        .advise(kMeasureAgain);
  }
}

void check_groups(const std::vector<DeviceGroup>& groups) {
  for (const DeviceGroup& group : groups) check_group(group);
  if (std::ranges::all_of(groups, [](const DeviceGroup& group) { return group.count == 0; })) {
    throw Error::make(Fault::infeasible, "no devices: nothing can host the ESTs").advise("give at least one device");
  }
}

void check_workers(const PlannedJob& job, const std::vector<DeviceGroup>& groups,
                   const std::vector<WorkerShare>& workers) {
  int64_t ests = 0;
  std::vector<int64_t> used(groups.size());
  for (size_t i = 0; i < workers.size(); ++i) {
    check_share(groups, i, workers[i]);
    if (workers[i].ests > job.ests - ests)
      ests = job.ests + 1;  // too many: the exact sum might overflow
    else
      ests += workers[i].ests;
    const DeviceGroup& group = groups[static_cast<size_t>(workers[i].group)];
    if (++used[static_cast<size_t>(workers[i].group)] > group.count) {
      throw Error::make(Fault::infeasible, "more workers on {} than its {}", group.kind, named(group.count, "device"))
          .advise("give every device one worker");
    }
    const DeviceGroup& first = groups[static_cast<size_t>(workers[0].group)];
    if (job.one_kind && group.family() != first.family()) {
      throw Error::make(Fault::infeasible, "workers on {} and {}: below D2 all devices must be of one kind", first.kind,
                        group.kind)
          .advise("choose devices of one kind, or determinism = \"D2\"");
    }
    if (ests > job.ests) break;
  }
  if (ests == job.ests) return;
  throw Error::make(Fault::infeasible, "the workers host {} than the job's {}", ests < job.ests ? "fewer" : "more",
                    named(job.ests, "EST"))
      .advise("give every EST one worker");
}

void throw_no_room(const PlannedJob& job, const std::vector<DeviceGroup>& groups, int64_t most_workers) {
  int64_t most = 0;
  std::string where = "all devices together";
  for (const std::vector<int64_t>& set : mixable(job, groups)) {
    const int64_t room = room_of(groups, set, std::min(most_workers, job.ests));
    if (room <= most) continue;
    most = room;
    if (job.one_kind) where = "the roomiest kind, " + groups[static_cast<size_t>(set.front())].kind + ",";
  }
  const std::string limit = most_workers < job.ests ? fmt::format(" on at most {}", named(most_workers, "worker")) : "";
  throw Error::make(Fault::infeasible, "{} do not fit{}: the memory of {} takes {}", named(job.ests, "EST"), limit,
                    where, most)
      .advise(job.one_kind ? "give more devices of one kind, or choose determinism = \"D2\", which may mix kinds"
                           : "give more devices, or make a mini-batch smaller");
}

}  // namespace estrain::plan
