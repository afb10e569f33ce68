#include "core/planning/scheduling/cluster.h"

#include <algorithm>

#include "core/base/error.h"

namespace estrain::scheduling {

Cluster::Cluster(std::vector<Host> hosts) : hosts_(std::move(hosts)) {
  for (const Host& host : hosts_) {
    if (host.devices < 1) throw Error::make(Fault::infeasible, "a host of type {} has no devices", host.type);
    auto at = std::ranges::find(types_, host.type);
    if (at == types_.end()) {
      if (types_.size() == kMostTypes) {
        throw Error::make(Fault::infeasible, "the cluster has devices of more than {} types", kMostTypes);
      }
      at = types_.insert(types_.end(), host.type);
    }
    const auto type = static_cast<size_t>(at - types_.begin());
    type_of_.push_back(type);
    devices_of_type_[type] += host.devices;
    host_size_[type] = std::max(host_size_[type], host.devices);
    devices_ += host.devices;
  }
  if (hosts_.empty()) throw Error(Fault::infeasible, "the cluster has no hosts");
}

int64_t devices_of(const Placement& placement) {
  int64_t all = 0;
  for (const DevicesOnHost& share : placement) all += share.devices;
  return all;
}

Shape shape_of(const Cluster& cluster, const Placement& placement) {
  Shape shape;
  for (const DevicesOnHost& share : placement) {
    shape.devices[cluster.type_of(share.host)] += share.devices;
    ++shape.hosts[cluster.type_of(share.host)];
  }
  return shape;
}

Shape packed(const Cluster& cluster, size_t type, int64_t devices) {
  Shape shape;
  const int64_t size = cluster.host_size(type);
  shape.devices[type] = static_cast<int32_t>(devices);
  shape.hosts[type] = static_cast<int32_t>((devices + size - 1) / size);
  return shape;
}

FreeDevices::FreeDevices(const Cluster& cluster) : cluster_(cluster), total_(cluster.devices()) {
  free_.reserve(cluster.hosts().size());
  for (const Host& host : cluster.hosts()) free_.push_back(host.devices);
  for (size_t type = 0; type < cluster.types().size(); ++type) of_type_[type] = cluster.devices_of_type(type);
}

bool FreeDevices::holds(const Placement& placement) const {
  return std::ranges::all_of(placement, [this](const DevicesOnHost& share) { return on(share.host) >= share.devices; });
}

void FreeDevices::take(int64_t host, int64_t devices) {
  free_[static_cast<size_t>(host)] -= devices;
  of_type_[cluster_.type_of(host)] -= devices;
  total_ -= devices;
  if (free_[static_cast<size_t>(host)] < 0) throw Error::make(Fault::bug, "host {} is given out twice", host);
}

void FreeDevices::take(const Placement& placement) {
  for (const DevicesOnHost& share : placement) take(share.host, share.devices);
}

void FreeDevices::give(const Placement& placement) {
  for (const DevicesOnHost& share : placement) take(share.host, -int64_t{share.devices});
}

Placement FreeDevices::take_most_free(size_t type, int64_t count) {
  Placement taken;
  if (count > of_type(type)) return taken;
  while (count > 0) {
    int64_t most = -1;
    for (int64_t host = 0; host < static_cast<int64_t>(free_.size()); ++host) {
      if (cluster_.type_of(host) == type && (most < 0 || on(host) > on(most))) most = host;
    }
    const int64_t devices = std::min(count, on(most));
    taken.push_back({static_cast<int32_t>(most), static_cast<int32_t>(devices)});
    take(most, devices);
    count -= devices;
  }
  return taken;
}

Placement FreeDevices::take_packed(size_t type, int64_t count, const Placement& preferred) {
  Placement taken;
  if (count > of_type(type)) return taken;
  const auto is_preferred = [&](int64_t host) {
    return std::ranges::any_of(preferred, [&](const DevicesOnHost& share) { return share.host == host; });
  };
  const auto num_hosts = static_cast<int64_t>(free_.size());
  while (count > 0) {
    // Takes the host that fits the remaining devices most tightly; if no host fits, the host with most free devices.
    int64_t best = -1, best_worth = 0;
    for (int64_t host = 0; host < num_hosts; ++host) {
      const int64_t free = on(host);
      if (free == 0 || cluster_.type_of(host) != type) continue;
      int64_t worth = 4 * (free >= count ? (int64_t{1} << 32) - free : free);
      if (is_preferred(host)) worth += free >= count ? int64_t{1} << 32 : 1;
      if (best < 0 || worth > best_worth) best = host, best_worth = worth;
    }
    const int64_t devices = std::min(count, on(best));
    taken.push_back({static_cast<int32_t>(best), static_cast<int32_t>(devices)});
    take(best, devices);
    count -= devices;
  }
  return taken;
}

}  // namespace estrain::scheduling
