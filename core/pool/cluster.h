#pragma once
// Devices on hosts, and which of them a job holds. Hosts are numbered as the cluster lists them; devices of one host
// are alike, so a placement says how many of each host, not which.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace estrain::pool {

struct Host {
  std::string type;  // "v100"; hosts of one type are alike
  int64_t devices = 0;
};

// Types are numbered in the order in which they first occur.
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
  // Devices of the largest host of a type.
  int64_t host_size(size_t type) const { return host_size_[type]; }

 private:
  std::vector<Host> hosts_;
  std::vector<std::string> types_;
  std::vector<size_t> type_of_;
  std::array<int64_t, kMostTypes> devices_of_type_{}, host_size_{};
  int64_t devices_ = 0;
};

struct Share {
  int32_t host = 0;
  int32_t devices = 0;
  bool operator==(const Share&) const = default;
};

// In the order in which the job's workers fill it. Empty: the job holds nothing.
using Placement = std::vector<Share>;

int64_t devices_of(const Placement& placement);

// All that speed depends on: devices and hosts of each type.
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
// So many devices of one type on as few hosts as can hold them.
Shape packed(const Cluster& cluster, size_t type, int64_t devices);

// The devices that nobody holds.
class FreeDevices {
 public:
  explicit FreeDevices(const Cluster& cluster);

  int64_t total() const { return total_; }
  int64_t of_type(size_t type) const { return of_type_[type]; }
  int64_t on(int64_t host) const { return free_[static_cast<size_t>(host)]; }
  bool holds(const Placement& placement) const;  // all of it is free

  void take(const Placement& placement);
  void give(const Placement& placement);

  // Each time from the host of this type with most free devices (lowest number on ties) until `count` are had. Empty,
  // and nothing is taken, where fewer are free.
  Placement take_most_free(size_t type, int64_t count);

  // On as few hosts as can be, of one type: on hosts of `preferred` first, else on the host that fits most tightly, or
  // on the emptiest ones. Empty, and nothing is taken, where fewer are free.
  Placement take_packed(size_t type, int64_t count, const Placement& preferred = {});

 private:
  void take(int64_t host, int64_t devices);

  const Cluster& cluster_;
  std::vector<int64_t> free_;
  std::array<int64_t, Cluster::kMostTypes> of_type_{};
  int64_t total_ = 0;
};

}  // namespace estrain::pool
