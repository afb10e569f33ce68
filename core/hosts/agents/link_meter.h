#pragma once
// The distance to a host: the shortest of a few round trips, and the bytes a second of a bulk transfer. The end that
// has connected measures, the peer answers:
//
//   {"ask": "ping"}                  -> {"pong": true}
//   `bulk` frames, {"ask": "bulk"}   -> {"bytes": bytes received}

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/json/json.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

class LinkMeter {
 public:
  // `bulk_frames`: each of net::most_frame_bytes; 0: round trips only.
  LinkMeter(net::Connection& connection, uint64_t bulk_frames) : connection_(connection), bulk_frames_(bulk_frames) {}

  void begin() { ask("ping"); }
  // Returns false if the message is neither answer.
  bool hear(const Json& said);
  bool is_done() const { return done_; }
  double round_trip_seconds() const { return round_trip_.value_or(0); }
  double bytes_per_second() const { return bytes_per_second_; }

 private:
  void ask(const char* what);
  void send_bulk();

  net::Connection& connection_;
  const uint64_t bulk_frames_;
  std::vector<std::byte> block_;
  int64_t asked_ns_ = 0;
  int pings_ = 0;
  std::optional<double> round_trip_;
  double bytes_per_second_ = 0;
  bool done_ = false;
};

// The end that answers the measurement.
class MeterEnd {
 public:
  void count(uint64_t bytes) { bytes_ += bytes; }
  // Returns false if the message is neither question.
  bool answer(net::Connection& connection, const Json& asked);

 private:
  uint64_t bytes_ = 0;
};

}  // namespace estrain::hosts
