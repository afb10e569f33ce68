#include "core/simulate/present_devices.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace estrain::simulate {
namespace {

// Devices on the first host, which alone loses some.
int64_t on_first_host(const pool::Placement& placement) {
  int64_t devices = 0;
  for (const pool::Share& share : placement) devices += share.host == 0 ? share.devices : 0;
  return devices;
}

void add_on_first_host(pool::Placement& placement, int32_t devices) {
  const auto at = std::ranges::find(placement, 0, &pool::Share::host);
  if (at == placement.end()) {
    placement.push_back({0, devices});
  } else if ((at->devices += devices) == 0) {
    placement.erase(at);
  }
}

}  // namespace

PresentDevices::PresentDevices(const pool::Cluster& all, std::vector<Absence> absences)
    : all_(all), absences_(std::move(absences)), cluster_(all) {}

double PresentDevices::next_change(double now) const {
  double next = std::numeric_limits<double>::infinity();
  for (const Absence& absence : absences_) {
    for (const double edge : {absence.from, absence.to}) {
      if (edge > now) next = std::min(next, edge);
    }
  }
  return next;
}

int64_t PresentDevices::away_at(double now) const {
  int64_t away = 0;
  for (const Absence& absence : absences_) {
    if (absence.from <= now && now < absence.to) away += absence.devices;
  }
  return std::min(away, all_.hosts().front().devices);
}

void PresentDevices::move_to(double now) {
  const int64_t away = away_at(now);
  if (away == away_) return;
  away_ = away;
  std::vector<pool::Host> hosts = all_.hosts();
  hosts.front().devices -= away;
  cluster_.reset();
  if (hosts.front().devices > 0) cluster_.emplace(std::move(hosts));
}

std::vector<pool::Placement> PresentDevices::fit(const std::vector<SimulatedJob*>& jobs) {
  std::vector<pool::Placement> placements;
  int64_t free = all_.hosts().front().devices - away_;
  for (const SimulatedJob* job : jobs) {
    placements.push_back(job->facts.placement);
    free -= on_first_host(placements.back());
  }
  for (; free < 0; ++free) {
    size_t most = 0;
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (on_first_host(placements[i]) >= on_first_host(placements[most])) most = i;
    }
    add_on_first_host(placements[most], -1);
    ++owed_[jobs[most]];
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto at = owed_.find(jobs[i]);
    for (; at != owed_.end() && at->second > 0 && free > 0 && !placements[i].empty(); --at->second, --free)
      add_on_first_host(placements[i], 1);
  }
  return placements;
}

}  // namespace estrain::simulate
