#pragma once
// The connections of a courier to the couriers of other hosts: made, taken, lost, and given up after a silence.
//
// Beats (heartbeats.h) go between the coordinator and each other host, so the coordinator notices a host that stands
// still. Two other hosts exchange no beats. Each sends the other something at least every 10 s, and the receiver's
// system must acknowledge all bytes in time, or the connection ends (net/connection.h). A host without a coordinator
// must know the hosts that are left: the host sends beats to all, and all answer.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/hosts/agents/link_meter.h"
#include "core/hosts/courier/courier_messages.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

inline constexpr Nanoseconds silence_limit = 1'500ms;  // then a host counts as lost

// Returns whether a host expects beats of another host unasked, and sends beats to this host.
constexpr bool exchanges_beats(bool leads, bool has_coordinator, bool other_leads) {
  return leads || other_leads || !has_coordinator;
}
// Returns whether a host sends beats to another host. `since_beat`: since the last beat of the other host.
constexpr bool sends_beats(bool leads, bool has_coordinator, bool other_leads, Nanoseconds since_beat) {
  return exchanges_beats(leads, has_coordinator, other_leads) || since_beat <= silence_limit;
}

// Notices that this process stood still (stopped, or starved) and continues: other hosts may count this host as lost.
class OwnPause {
 public:
  // The owner's timer calls this at least every 100 ms. Returns true if the process stood still until now.
  bool tick() {
    const MonotonicTime now = MonotonicClock::now();
    const bool ended = now - tick_ > kPause;
    if (ended) ended_ = now;
    tick_ = now;
    return ended;
  }

  // The process stands still, or did in the last five seconds: other hosts may still be dropping this host.
  bool is_recent() const {
    const MonotonicTime now = MonotonicClock::now();
    return now - tick_ > kPause || now - ended_ < kAfterwards;
  }

 private:
  static constexpr Nanoseconds kPause = 750ms, kAfterwards = 5s;

  MonotonicTime tick_ = MonotonicClock::now(), ended_ = tick_ - kAfterwards;
};

// The place for the payload of a frame, and the act that follows its arrival. Without `arrived` the payload is dropped.
struct Landing {
  std::span<std::byte> at = {};
  std::function<void()> arrived = {};
};

// A CourierLink is a connection to another host's courier: where the payload of each frame goes.
class CourierLink : public net::FrameSink {
 public:
  struct Hears {
    std::function<void(const CourierMessage& said)> message;  // but the measurement's
    std::function<void(double round_trip_seconds, double bytes_per_second)> measured;
    // Returns the place of a frame that is neither a message nor `bulk`. Nothing: the frame waits until retry().
    std::function<std::optional<Landing>(const net::FrameHead&)> landing;
  };
  CourierLink(net::ConnectionPtr to, Hears hears)
      : connection(std::move(to)), heard(MonotonicClock::now()), hears_(std::move(hears)) {}

  std::optional<std::span<std::byte>> room_for(const net::FrameHead& head) override {
    heard = MonotonicClock::now();
    waits = false;
    landing_ = Landing{};
    if (parted) return scrap(head);
    if (head.kind == message) {
      text_.resize(head.bytes);
      landing_ =
          Landing{std::as_writable_bytes(std::span(text_)), [this] { hear(read_message<CourierMessage>(text_)); }};
    } else if (head.kind == bulk) {
      end_.count(head.bytes);
    } else {
      std::optional<Landing> landing = hears_.landing(head);
      waits = !landing;
      if (waits) return std::nullopt;
      landing_ = std::move(*landing);
    }
    return landing_.arrived ? landing_.at : scrap(head);
  }

  void received(const net::FrameHead&) override {
    heard = MonotonicClock::now();
    state_arriving = 0;
    const auto arrived = std::exchange(landing_, Landing{}).arrived;
    if (arrived && !parted) arrived();
  }

  void arrives(const net::FrameHead& head, size_t bytes) override {
    heard = MonotonicClock::now();
    if (head.kind == state) state_arriving = bytes;
  }

  // The distance to the host.
  void measure() {
    meter_.emplace(*connection, kFrames);
    meter_->begin();
  }

  const net::ConnectionPtr connection;
  MonotonicTime heard;
  MonotonicTime beat = kNoTime;  // the last beat; kNoTime: none
  bool waits = false;            // the next frame is of a stage not open here yet: all later frames wait, too
  bool parted = false;           // all further frames are dropped
  size_t state_arriving = 0;     // bytes here of a frame of the state that is not complete

 private:
  static constexpr uint64_t kFrames = 4;  // of a measurement

  void hear(const CourierMessage& said) {
    std::visit(
        [&]<typename Message>(const Message& one) {
          if constexpr (requires { end_.answer(*connection, one); }) {
            end_.answer(*connection, one);
          } else if constexpr (requires { meter_->hear(one); }) {
            hear_measured(one);
          } else {
            hears_.message(said);
          }
        },
        said);
  }

  template <typename Metered>
  void hear_measured(const Metered& said) {
    if (!meter_) return;
    meter_->hear(said);
    if (!meter_->is_done()) return;
    const double round_trip = meter_->round_trip_seconds(), bytes = meter_->bytes_per_second();
    meter_.reset();
    hears_.measured(round_trip, bytes);
  }

  // Room for a frame that is to be dropped.
  std::span<std::byte> scrap(const net::FrameHead& head) {
    scrap_.resize(std::max<size_t>(scrap_.size(), head.bytes));
    return std::span(scrap_).first(head.bytes);
  }

  const Hears hears_;
  std::string text_;
  std::vector<std::byte> scrap_;
  Landing landing_;
  std::optional<LinkMeter> meter_;
  MeterEnd end_;
};

class HostLinks {
 public:
  struct Options {
    net::SharedKey key;
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
  // Returns the bytes from the host of a frame of the state that is not complete yet.
  size_t state_arriving(const std::string& name) const;
  // Returns false if the host is not connected.
  bool tell(const std::string& name, const CourierMessage& said);
  void tell_all(const CourierMessage& said);
  // Tries the waiting frames again.
  void retry();
  // Drops a host. A dropped coordinator hears that this host leaves, if the connection still works.
  void drop(const std::string& name, const Error& why, bool silent);
  // A beat of the host has come.
  void note_beat(const std::string& name);
  // Returns the connections on which beats go now.
  std::vector<std::pair<std::string, net::Connection*>> to_beat() const;
  // Sends an empty frame without meaning on each connection on which no beats go. The peer's system must acknowledge
  // the frame in time, so a cut path is noticed though nothing else is sent.
  void try_quiet();
  // Drops hosts that have been silent for too long, of the hosts whose beats are expected. Called every 10 ms.
  void look();
  // Stops every activity of the links.
  void retire();

 private:
  bool leads() const { return options_.own.host.empty(); }
  bool beats_go(const std::string& name, const CourierLink& link) const;
  bool has_coordinator() const { return !leads() && links_.contains(""); }
  void add(const net::ConnectionPtr& connection, const std::string& name);
  void part(std::unique_ptr<CourierLink> link);
  void measure_next();
  void forgive_silence();

  net::Loop& loop_;
  Options options_;
  std::map<std::string, std::unique_ptr<CourierLink>> links_;  // by the name of the other host
  std::map<std::string, bool> reaching_;                       // being connected to
  OwnPause own_pause_;
  // The coordinator's: hosts whose links are to be measured, one after another, since a measurement is 4 MiB and beats
  // would wait behind those of many hosts; the host whose link is being measured, or nothing.
  std::deque<std::string> to_measure_;
  std::optional<std::string> measured_;
  std::unique_ptr<CourierLink> parted_;  // from the coordinator, until the last message has left
  std::shared_ptr<net::Loop::Timer> parted_end_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // null after retire(). A call may outlive the links
};

}  // namespace estrain::hosts
