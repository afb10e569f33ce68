#pragma once
// A connection to another host's courier: where the payload of each frame goes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/hosts/agents/link_meter.h"
#include "core/hosts/courier/courier_messages.h"
#include "core/hosts/exchange/message_link.h"

namespace estrain::hosts {

// The place for the payload of a frame, and the act that follows its arrival. Without `arrived` the payload is dropped.
struct Landing {
  std::span<std::byte> at = {};
  std::function<void()> arrived = {};
};

class CourierLink : public net::FrameSink {
 public:
  struct Hears {
    std::function<void(const CourierMessage& said)> message;  // but the measurement's
    std::function<void(double round_trip_seconds, double bytes_per_second)> measured;
    // Returns the place of a frame that is neither a message nor `bulk`. Nothing: the frame waits until retry().
    std::function<std::optional<Landing>(const net::FrameHead&)> landing;
  };
  CourierLink(net::ConnectionPtr to, Hears hears)
      : connection(std::move(to)), heard_ns(monotonic_ns()), hears_(std::move(hears)) {}

  std::optional<std::span<std::byte>> room_for(const net::FrameHead& head) override {
    heard_ns = monotonic_ns();
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
    heard_ns = monotonic_ns();
    const auto arrived = std::exchange(landing_, Landing{}).arrived;
    if (arrived && !parted) arrived();
  }

  // The distance to the host.
  void measure() {
    meter_.emplace(*connection, kFrames);
    meter_->begin();
  }

  const net::ConnectionPtr connection;
  int64_t heard_ns;
  bool waits = false;   // the next frame is of a stage not open here yet: all later frames wait, too
  bool parted = false;  // all further frames are dropped

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
    hears_.measured(meter_->round_trip_seconds(), meter_->bytes_per_second());
    meter_.reset();
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

}  // namespace estrain::hosts
