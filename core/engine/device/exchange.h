#pragma once
// Transfers between the workers of a stage from device memory to device memory, without the host.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace estrain::device {

// Workers find each other by this id: one worker makes the id, all workers get the id.
using ExchangeId = std::array<std::byte, 128>;

// A worker in an exchange. While waiting for the other workers (seconds), the worker checks `abort` and calls `beat`.
struct ExchangeParty {
  uint32_t worker, workers;
  const std::atomic<uint32_t>& abort;  // must live as long as the exchange
  std::function<void()> beat;
};

struct Transfer {
  uint32_t peer;  // worker of the stage
  void* memory;   // of the device, at least 4-byte aligned
  size_t bytes;
};

// Not thread-safe. Every worker must request the same groups of transfers in the same order. If a worker is lost, the
// rest is released once the stage is aborted; transfers in progress then leave arbitrary bytes.
class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;  // after ComputeDevice::finish()
  DeviceExchange() = default;
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;

  // Queues one group: the n-th send to a peer matches the peer's n-th receive from this worker, with the same number of
  // bytes. Begins after all earlier work of the device; later work does not wait for the group until join().
  virtual void transfer(std::span<const Transfer> sends, std::span<const Transfer> receives) = 0;

  // Makes later work of the device wait for all transfers.
  virtual void join() = 0;

  // Call this after ComputeDevice::finish(). Throws Fault::device if transfers failed and the stage is not aborted.
  virtual void check() = 0;
};

}  // namespace estrain::device
