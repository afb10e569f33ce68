#pragma once
// Devices on hosts, and the devices of a job. Hosts are numbered in the cluster's order. Devices of a host are alike,
// and a placement has only the number of devices on each host.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace estrain::scheduling {

struct Host {
  std::string type;  // "v100"; hosts of the same type are alike
  int64_t devices = 0;
};

// Types are numbered in the order of their first occurrence.
class Cluster {
 public:
  static constexpr size_t kMostTypes = 4;

  Cluster() = default;
  // Throws Fault::infeasible for more than kMostTypes types, a host without devices or no host at all.
  explicit Cluster(std::vector<Host> hosts);

  const std::vector<Host>& hosts() const { return hosts_; }
  const std::vector<std::string>& types() const { return types_; }
  size_t type_of(int64_t host) const { return type_of_[static_cast<size_t>(host)]; }
  int64_t devices() const { return devices_; }
  int64_t devices_of_type(size_t type) const { return devices_of_type_[type]; }
  // Returns the number of devices of the largest host of a type.
  int64_t host_size(size_t type) const { return host_size_[type]; }

 private:
  std::vector<Host> hosts_;
  std::vector<std::string> types_;
  std::vector<size_t> type_of_;
  std::array<int64_t, kMostTypes> devices_of_type_{}, host_size_{};
  int64_t devices_ = 0;
};

struct DevicesOnHost {
  int32_t host = 0;
  int32_t devices = 0;
  bool operator==(const DevicesOnHost&) const = default;
};

// In the order in which the job's workers fill the shares. Empty: the job holds nothing.
using Placement = std::vector<DevicesOnHost>;

int64_t devices_of(const Placement& placement);

// Everything that speed depends on: devices and hosts of each type.
struct Shape {
  std::array<int32_t, Cluster::kMostTypes> devices{}, hosts{};

  int64_t all_devices() const {
    int64_t all = 0;
    for (const int32_t of_type : devices) all += of_type;
    return all;
  }
  auto operator<=>(const Shape&) const = default;
};

Shape shape_of(const Cluster& cluster, const Placement& placement);
// Returns the shape of this many devices of a type on as few hosts as possible.
Shape packed(const Cluster& cluster, size_t type, int64_t devices);

// The devices without a job.
class FreeDevices {
 public:
  explicit FreeDevices(const Cluster& cluster);

  int64_t total() const { return total_; }
  int64_t of_type(size_t type) const { return of_type_[type]; }
  int64_t on(int64_t host) const { return free_[static_cast<size_t>(host)]; }
  bool holds(const Placement& placement) const;  // whether the whole placement is free

  void take(const Placement& placement);
  void give(const Placement& placement);

  // Takes `count` devices of this type, each from the host with the most free devices of the type (lowest number on
  // ties). Returns an empty placement, and takes nothing, if fewer are free.
  Placement take_most_free(size_t type, int64_t count);

  // Takes devices of a type on as few hosts as possible: first on hosts of `preferred`, else on the host that fits most
  // tightly, or on the emptiest hosts. Returns an empty placement, and takes nothing, if fewer are free.
  Placement take_packed(size_t type, int64_t count, const Placement& preferred = {});

 private:
  void take(int64_t host, int64_t devices);

  const Cluster& cluster_;
  std::vector<int64_t> free_;
  std::array<int64_t, Cluster::kMostTypes> of_type_{};
  int64_t total_ = 0;
};

}  // namespace estrain::scheduling
