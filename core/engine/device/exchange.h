#pragma once
// Transfers between the workers of a stage from device memory to device memory, without the host.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace estrain::device {

// The id by which workers find each other: one makes it, all get it.
using ExchangeId = std::array<std::byte, 128>;

// One of the workers that meet. While it waits for the others, which takes seconds, it checks `abort` and calls `beat`.
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
// others are released once the stage is aborted; transfers in progress then leave arbitrary bytes.
class Exchange {
 public:
  virtual ~Exchange() = default;  // after ComputeDevice::finish()
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // One group: the n-th send to a peer matches its n-th receive from this worker, with the same number of bytes. Begins
  // after all earlier work of the device; later work does not wait for it until join().
  virtual void transfer(std::span<const Transfer> sends, std::span<const Transfer> receives) = 0;

  // Makes later work of the device wait for all transfers.
  virtual void join() = 0;

  // Call it after ComputeDevice::finish(): throws Fault::device if transfers failed and this did not abort the stage.
  virtual void check() = 0;
};

}  // namespace estrain::device
