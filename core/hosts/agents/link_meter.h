#pragma once
// The distance to a host: the shortest of a few round trips, and the bytes a second of a bulk transfer. The end that
// has connected measures, the peer answers: each Ping by a Pong, `bulk` frames and BulkSent by BulkReceived.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/hosts/agents/look_messages.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

class LinkMeter {
 public:
  // `bulk_frames`: each of net::most_frame_bytes; 0: round trips only.
  LinkMeter(net::Connection& connection, uint64_t bulk_frames) : connection_(connection), bulk_frames_(bulk_frames) {}

  void begin() { ping(); }
  void hear(const Pong& pong);
  void hear(const BulkReceived& received);
  bool is_done() const { return done_; }
  double round_trip_seconds() const { return round_trip_.value_or(0); }
  double bytes_per_second() const { return bytes_per_second_; }

 private:
  void ping();
  void send_bulk();

  net::Connection& connection_;
  const uint64_t bulk_frames_;
  std::vector<std::byte> block_;
  MonotonicTime asked_{};
  int pings_ = 0;
  std::optional<double> round_trip_;
  double bytes_per_second_ = 0;
  bool done_ = false;
};

// The end that answers the measurement.
class MeterEnd {
 public:
  void count(uint64_t bytes) { bytes_ += bytes; }
  void answer(net::Connection& connection, const Ping& ping);
  void answer(net::Connection& connection, const BulkSent& sent);

 private:
  uint64_t bytes_ = 0;
};

}  // namespace estrain::hosts
