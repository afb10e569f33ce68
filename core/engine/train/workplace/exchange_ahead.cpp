#include "core/engine/train/workplace/exchange_ahead.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace estrain::train {

ExchangeAhead::ExchangeAhead(device::ComputeDevice& device, comm::JobMemory& memory, bool is_used, Receive receive,
                             Report report)
    : device_(device),
      memory_(memory),
      is_used_(is_used),
      receive_(std::move(receive)),
      report_(std::move(report)),
      asked_(memory.meetings().exchange_asked()) {}

void ExchangeAhead::look() {
  const int64_t asked = memory_.meetings().exchange_asked();
  if (asked == asked_) return;
  if (asked == 0) {
    asked_ = 0;
    return drop();
  }
  while (const std::optional<Order> order = receive_()) {
    if (order->ticket == asked) return prepare(*order);
  }
}

void ExchangeAhead::prepare(const Order& order) {
  drop();
  if (order.ticket != memory_.meetings().exchange_asked()) return;
  asked_ = order.ticket;
  if (!is_used_) return report_({order.ticket, false});
  ticket_ = order.ticket;
  given_up_ = std::make_shared<std::atomic<uint32_t>>(0);
  maker_ = std::thread([this, order, given_up = given_up_] {
    try {
      made_ = meet(order, given_up);
    } catch (const std::exception& error) {
      fmt::print(stderr, "warning: the GPUs of the next stage cannot meet before it begins: {}\n", error.what());
    }
    report_({order.ticket, made_ != nullptr});
  });
}

std::unique_ptr<device::DeviceExchange> ExchangeAhead::meet(
    const Order& order, const std::shared_ptr<const std::atomic<uint32_t>>& given_up) {
  device::ExchangeId id;
  comm::MeetingPlaces meetings = memory_.meetings();
  if (order.worker == 0) meetings.set_next_exchange_id(order.ticket, device_.new_exchange());
  if (!meetings.wait_next_exchange_id(order.ticket, &id)) return nullptr;
  const auto worker = static_cast<uint32_t>(order.worker), workers = static_cast<uint32_t>(order.workers);
  return device_.open_exchange(id, {worker, workers, memory_.gate().abort_word(), nullptr, given_up});
}

std::unique_ptr<device::DeviceExchange> ExchangeAhead::take(int64_t ticket) {
  if (ticket == 0 || ticket != ticket_) {
    drop();
    return nullptr;
  }
  if (maker_.joinable()) maker_.join();
  given_up_.reset();  // the stage ends the exchange from here on
  ticket_ = 0;
  return std::move(made_);
}

void ExchangeAhead::drop() {
  if (given_up_) given_up_->store(1);
  if (maker_.joinable()) maker_.join();
  made_.reset();
  given_up_.reset();
  ticket_ = 0;
}

}  // namespace estrain::train
