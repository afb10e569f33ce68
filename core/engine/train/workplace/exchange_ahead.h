#pragma once
// Prepares the exchange between the GPUs of the next stage while this stage trains, so that a change of workers does
// not wait for the exchange. Making NCCL's communicator takes up to seconds; a thread of this object does it.
//
// The launcher asks every worker of the next stage for an exchange by one ticket, and takes the exchange into use only
// if all of them have made it. After a loss, or if the change is given up, the launcher asks for another ticket or for
// none. What was made is then dropped: at the next request, and at the latest when a stage begins.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "core/engine/device/device.h"
#include "core/state/comm/job_memory.h"
#include "core/state/comm/messages/worker_messages.h"

namespace estrain::train {

class ExchangeAhead {
 public:
  using Order = comm::ExchangeOrder;
  // `receive` returns the launcher's waiting order, or nothing. `report` is called in any thread.
  using Receive = std::function<std::optional<Order>()>;
  using Report = std::function<void(const comm::ExchangeReport&)>;

  // `is_used`: the job's stages use exchanges between GPUs. Otherwise nothing is prepared, and the report says so.
  ExchangeAhead(device::ComputeDevice& device, comm::JobMemory& memory, bool is_used, Receive receive, Report report);
  ~ExchangeAhead() { drop(); }
  ExchangeAhead(const ExchangeAhead&) = delete;
  ExchangeAhead& operator=(const ExchangeAhead&) = delete;

  // Call this function often during a stage: looks whether the launcher asks for another exchange, or for none.
  void look();
  // Begins to prepare an exchange, in place of an earlier one.
  void prepare(const Order& order);
  // Call this function when a stage begins: drops what was prepared by another ticket than the stage's.
  void keep_only(int64_t ticket) {
    if (ticket != ticket_) drop();
  }
  // Returns the exchange of this ticket, and waits until it is made. Null: not made, or made with another ticket. Drops
  // every other exchange.
  std::unique_ptr<device::DeviceExchange> take(int64_t ticket);

 private:
  void drop();
  std::unique_ptr<device::DeviceExchange> meet(const Order& order,
                                               const std::shared_ptr<const std::atomic<uint32_t>>& given_up);

  device::ComputeDevice& device_;
  comm::JobMemory& memory_;
  const bool is_used_;
  const Receive receive_;
  const Report report_;
  int64_t asked_ = 0;   // the ticket seen last
  int64_t ticket_ = 0;  // of made_
  std::shared_ptr<std::atomic<uint32_t>> given_up_;
  std::unique_ptr<device::DeviceExchange> made_;  // written by maker_
  std::thread maker_;
};

}  // namespace estrain::train
