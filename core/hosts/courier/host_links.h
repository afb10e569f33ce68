#pragma once
// The connections of a courier to the couriers of other hosts: made, taken, lost, and given up after a silence.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "core/base/clock.h"
#include "core/hosts/courier/link.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

inline constexpr int64_t silence_ns = 1'500'000'000;  // then a host counts as lost

// Notices that this process stood still (stopped, or starved) and continues: other hosts may count this host as lost.
class OwnPause {
 public:
  // The owner's timer calls this at least every 100 ms. Returns true if the process stood still until now.
  bool tick() {
    const int64_t now = monotonic_ns();
    const bool ended = now - tick_ns_ > kPauseNs;
    if (ended) ended_ns_ = now;
    tick_ns_ = now;
    return ended;
  }

  // The process stands still, or did in the last five seconds: other hosts may still be dropping this host.
  bool is_recent() const {
    const int64_t now = monotonic_ns();
    return now - tick_ns_ > kPauseNs || now - ended_ns_ < kAfterwardsNs;
  }

 private:
  static constexpr int64_t kPauseNs = 750'000'000, kAfterwardsNs = 5'000'000'000;

  int64_t tick_ns_ = monotonic_ns(), ended_ns_ = tick_ns_ - kAfterwardsNs;
};

class HostLinks {
 public:
  struct Options {
    net::Key key;
    net::Greeting own;  // its host: "" on the coordinator
    std::string from = {};
    // Calls to the owner, each with the other host's name.
    std::function<void(const std::string&)> connected;
    // `silent`: the host was silent, or this process has stood still. The connection is closed already.
    std::function<void(const std::string&, const Error& why, bool silent)> lost;
    std::function<void(const std::string&, const CourierMessage& said)> message;
    std::function<void(const std::string&, double round_trip_seconds, double bytes_per_second)> measured;
    std::function<std::optional<Landing>(const std::string&, const net::FrameHead&)> landing;
  };
  HostLinks(net::Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {}
  ~HostLinks();
  HostLinks(const HostLinks&) = delete;

  // From now on.
  void go_out_by(const std::string& address) { options_.from = address; }
  // Connects unless the host is connected. `clear`: payloads may go without encryption.
  void reach(const std::string& name, const std::string& address, bool clear);
  // Another host has connected.
  void take(const net::ConnectionPtr& connection);
  std::set<std::string> names() const;
  net::Connection* to(const std::string& name) const;  // null: not connected
  // Returns false if the host is not connected.
  bool tell(const std::string& name, const CourierMessage& said);
  void tell_all(const CourierMessage& said);
  // Tries the waiting frames again.
  void retry();
  // Drops a host. A dropped coordinator hears that this host leaves, if the connection still works.
  void drop(const std::string& name, const Error& why, bool silent);
  // Drops hosts that have been silent for too long. Called every 10 ms.
  void look();
  // Stops every activity of the links.
  void retire();

  template <typename Visit>
  void for_all(Visit&& visit) {
    for (auto& [name, link] : links_) visit(name, *link->connection);
  }

 private:
  void add(const net::ConnectionPtr& connection, const std::string& name);
  void part(std::unique_ptr<CourierLink> link);

  net::Loop& loop_;
  Options options_;
  std::map<std::string, std::unique_ptr<CourierLink>> links_;  // by the name of the other host
  std::map<std::string, bool> reaching_;                       // being connected to
  OwnPause own_pause_;
  std::unique_ptr<CourierLink> parted_;  // from the coordinator, until the last message has left
  std::shared_ptr<net::Loop::Timer> parted_end_;
  bool retired_ = false;
};

}  // namespace estrain::hosts
