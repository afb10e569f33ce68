#pragma once
// What the workers of a stage pass to each other from one device's memory to another's, without the host's.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace estrain::device {

// What workers find each other by: made by one of them, given to all.
using ExchangeId = std::array<std::byte, 128>;

// A worker among those that meet. While it waits for them, which takes seconds, it looks at `abort` and calls `beat`.
struct ExchangeParty {
  uint32_t worker, workers;
  const std::atomic<uint32_t>& abort;  // lasts as long as the exchange
  std::function<void()> beat;
};

struct Transfer {
  uint32_t peer;  // worker of the stage
  void* memory;   // of the device, at least 4-byte aligned
  size_t bytes;
};

// Not thread-safe. Every worker asks for the same groups of transfers in the same order. Where a worker is lost, the
// others are let go once the stage is aborted: what was under way then leaves any bytes behind.
class Exchange {
 public:
  virtual ~Exchange() = default;  // after Device::finish()
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // One group: the n-th send to a peer meets its n-th receive from here, which has as many bytes. Begins once what was
  // asked of the device before is computed; what is asked for afterwards does not wait, until join().
  virtual void transfer(std::span<const Transfer> sends, std::span<const Transfer> receives) = 0;

  // What is asked of the device from now on waits for all transfers.
  virtual void join() = 0;

  // After Device::finish(): throws Fault::device where transfers failed and the stage was not aborted for it.
  virtual void check() = 0;
};

}  // namespace estrain::device
