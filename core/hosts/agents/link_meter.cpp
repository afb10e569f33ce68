#include "core/hosts/agents/link_meter.h"

#include <algorithm>
#include <random>
#include <utility>

#include "core/base/clock.h"
#include "core/hosts/exchange/message_link.h"

namespace estrain::hosts {
namespace {

constexpr int kPings = 5;
constexpr double kShortestSeconds = 1e-6;

}  // namespace

void LinkMeter::ask(const char* what) {
  asked_ns_ = monotonic_ns();
  send_message(connection_, {{"ask", what}});
}

bool LinkMeter::hear(const Json& said) {
  const double took = seconds(monotonic_ns() - asked_ns_);
  if (said.contains("pong")) {
    round_trip_ = std::min(round_trip_.value_or(took), took);
    if (++pings_ < kPings) {
      ask("ping");
    } else if (bulk_frames_ > 0) {
      send_bulk();
    } else {
      done_ = true;
    }
    return true;
  }
  if (!said.contains("bytes")) return false;
  bytes_per_second_ = said.value("bytes", 0.0) / std::max(took - round_trip_seconds(), kShortestSeconds);
  done_ = true;
  return true;
}

// Random bytes: a connection cannot pack them, so the measured rate is the link's.
void LinkMeter::send_bulk() {
  std::mt19937 random;
  block_.resize(net::most_frame_bytes);
  std::ranges::generate(block_, [&] { return static_cast<std::byte>(random()); });
  const int64_t begin = monotonic_ns();
  for (uint64_t i = 0; i < bulk_frames_; ++i)
    connection_.send_from({bulk, static_cast<uint32_t>(block_.size()), i, 0}, block_);
  ask("bulk");
  asked_ns_ = begin;
}

bool MeterEnd::answer(net::Connection& connection, const Json& asked) {
  const std::string ask = asked.value("ask", "");
  if (ask == "ping") {
    send_message(connection, {{"pong", true}});
  } else if (ask == "bulk") {
    send_message(connection, {{"bytes", std::exchange(bytes_, 0)}});
  } else {
    return false;
  }
  return true;
}

}  // namespace estrain::hosts
