#include "core/hosts/agents/link_meter.h"

#include <algorithm>
#include <random>
#include <span>
#include <utility>

#include "core/base/clock.h"
#include "core/hosts/exchange/message_link.h"

namespace estrain::hosts {
namespace {

constexpr int kPings = 5;
constexpr double kShortestSeconds = 1e-6;

}  // namespace

void LinkMeter::ping() {
  asked_ = MonotonicClock::now();
  send_message(connection_, MeterMessage(Ping{}));
}

void LinkMeter::hear(const Pong&) {
  const double took = seconds(MonotonicClock::now() - asked_).count();
  round_trip_ = std::min(round_trip_.value_or(took), took);
  if (++pings_ < kPings) {
    ping();
  } else if (bulk_frames_ > 0) {
    send_bulk();
  } else {
    done_ = true;
  }
}

void LinkMeter::hear(const BulkReceived& received) {
  const double took = seconds(MonotonicClock::now() - asked_).count();
  bytes_per_second_ = static_cast<double>(received.bytes) / std::max(took - round_trip_seconds(), kShortestSeconds);
  done_ = true;
}

// Random bytes: a connection cannot pack them, so the measured rate is the link's.
void LinkMeter::send_bulk() {
  std::mt19937_64 random;
  std::vector<uint64_t> words(net::most_frame_bytes / sizeof(uint64_t));
  std::ranges::generate(words, random);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(words));
  block_.assign(bytes.begin(), bytes.end());
  const MonotonicTime begin = MonotonicClock::now();
  for (uint64_t i = 0; i < bulk_frames_; ++i)
    connection_.send_from({bulk, static_cast<uint32_t>(block_.size()), i, 0}, block_);
  send_message(connection_, MeterMessage(BulkSent{}));
  asked_ = begin;
}

void MeterEnd::answer(net::Connection& connection, const Ping&) { send_message(connection, MeterMessage(Pong{})); }

void MeterEnd::answer(net::Connection& connection, const BulkSent&) {
  send_message(connection, MeterMessage(BulkReceived{std::exchange(bytes_, 0)}));
}

}  // namespace estrain::hosts
