#pragma once
// A courier's connection to another host: where the bytes of each frame go.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/hosts/agents/link_meter.h"
#include "core/hosts/beats.h"
#include "core/hosts/courier.h"
#include "core/hosts/exchange/message_link.h"

namespace estrain::hosts {

class Courier::Link : public net::FrameSink {
 public:
  Link(Courier& courier, net::ConnectionPtr to, std::string host)
      : connection(std::move(to)), name(std::move(host)), heard_ns(monotonic_ns()), courier_(courier) {}

  std::optional<std::span<std::byte>> room_for(const net::FrameHead& head) override {
    heard_ns = monotonic_ns();
    held_.reset();
    waits = false;
    into_ = Into::scrap;
    switch (head.kind) {
      case message:
        into_ = Into::text;
        text_.resize(head.bytes);
        return std::as_writable_bytes(std::span(text_));
      case beat:
        return room_for_beats(head);
      case state:
        return room_for_state(head);
      case bulk:
        end_.count(head.bytes);
        return scrap(head);
      default:
        return room_in_step(head);
    }
  }

  void received(const net::FrameHead& head) override {
    heard_ns = monotonic_ns();
    const std::shared_ptr<StepExchange> held = std::exchange(held_, nullptr);
    if (into_ == Into::text) {
      hear(parse_json(text_, "message of host " + name));
    } else if (into_ == Into::beats) {
      if (const auto index = courier_.index_of(name)) courier_.take_beats(*index, beats_);
    } else if (into_ == Into::state) {
      courier_.opening_->state.received(head);
      if (courier_.opening_->state.complete()) courier_.take_state();
    } else if (into_ == Into::step && held == courier_.exchange_ && !courier_.aborted_) {
      take(*held, head);
    }
  }

  // The coordinator's: how far the host is.
  void measure() {
    meter_.emplace(*connection, kFrames);
    meter_->begin();
  }

  const net::ConnectionPtr connection;
  const std::string name;
  int64_t heard_ns;
  bool waits = false;  // a frame of a stage that is not open here yet is at its head: what is behind it is not heard

 private:
  static constexpr uint64_t kFrames = 4;  // of a measurement
  enum class Into { scrap, text, beats, state, step };

  void hear(const Json& said) {
    if (end_.answer(*connection, said)) return;
    if (!meter_ || !meter_->hear(said)) return courier_.on_message(name, said);
    if (!meter_->is_done()) return;
    courier_.options_.tell({{"say", "link"},
                            {"host", name},
                            {"round_trip_seconds", meter_->round_trip_seconds()},
                            {"bytes_per_second", meter_->bytes_per_second()}});
    meter_.reset();
  }

  std::span<std::byte> scrap(const net::FrameHead& head) {
    courier_.scrap_.resize(net::most_frame_bytes);
    return std::span(courier_.scrap_).first(head.bytes);
  }

  std::span<std::byte> room_for_beats(const net::FrameHead& head) {
    if (name.empty()) courier_.note_recorded(static_cast<int64_t>(head.offset));
    const auto index = courier_.index_of(name);
    if (!index || head.number != courier_.exchange_->plan().stage || head.bytes == 0) return scrap(head);
    beats_.resize(courier_.exchange_->plan().hosts[*index].workers.size());
    if (head.bytes != beats_.size() * sizeof(WorkerBeat)) throw Error(Fault::corrupt, "beats of other workers");
    into_ = Into::beats;
    return std::as_writable_bytes(std::span(beats_));
  }

  std::optional<std::span<std::byte>> room_for_state(const net::FrameHead& head) {
    const std::optional<Opening>& opening = courier_.opening_;
    const bool wanted = opening && opening->asked_for_state && !opening->has_state &&
                        name == opening->plan.hosts[0].name &&
                        head.number == round_number(opening->plan.stage, opening->plan.step);
    if (!wanted) return scrap(head);
    into_ = Into::state;
    return opening->state.room_for(head);
  }

  // A frame of the current stage is taken, one of a past stage is dropped, one of a later stage waits.
  std::optional<std::span<std::byte>> room_in_step(const net::FrameHead& head) {
    const uint64_t stage = stage_of(head.number), now = courier_.exchange_ ? courier_.exchange_->plan().stage : 0;
    waits = stage > now;
    if (waits) return std::nullopt;
    const auto index = courier_.index_of(name);
    if (stage < now || courier_.aborted_ || !index) return scrap(head);
    into_ = Into::step;
    held_ = courier_.exchange_;
    return held_->room_for(*index, head);
  }

  void take(StepExchange& exchange, const net::FrameHead& head) {
    const auto index = courier_.index_of(name);
    if (!index) return;
    courier_.attempt([&] { exchange.received(*index, head); });
    courier_.serve_workers();  // a host that waited may have asked meanwhile
  }

  Courier& courier_;
  std::string text_;
  std::optional<LinkMeter> meter_;
  MeterEnd end_;
  std::vector<WorkerBeat> beats_;
  Into into_ = Into::scrap;
  std::shared_ptr<StepExchange> held_;  // that the payload under way belongs to
};

}  // namespace estrain::hosts
