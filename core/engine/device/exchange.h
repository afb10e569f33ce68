#pragma once
// Transfers between the workers of a stage from device memory to device memory, without the host.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace estrain::device {

// Workers find each other by this id: one worker makes the id, all workers get the id.
using ExchangeId = std::array<std::byte, 128>;

// A worker in an exchange. While waiting for the other workers (seconds), the worker checks `abort` and `given_up`, and
// calls `beat`.
struct ExchangeParty {
  uint32_t worker, workers;
  const std::atomic<uint32_t>& abort;  // must live as long as the exchange
  std::function<void()> beat;
  std::shared_ptr<const std::atomic<uint32_t>> given_up = nullptr;  // null: never. Not 0: the exchange is not wanted

  bool is_aborted() const { return abort.load() != 0 || (given_up && given_up->load() != 0); }
};

// All memory of transfers is the device's, at least 4-byte aligned.
struct Transfer {
  uint32_t peer;  // worker of the stage
  void* memory;
  size_t bytes;
};

// All workers get all workers' `from`, in the order of the workers. `from` may be the worker's own place in `to`.
struct Gather {
  const void* from;  // [bytes], the same number on every worker
  void* to;          // [worker, bytes]
  size_t bytes;
};

// Transfers that run together. The n-th send to a peer matches the peer's n-th receive from this worker, with the same
// number of bytes; the n-th gathers of all workers match.
struct TransferGroup {
  std::vector<Transfer> sends = {}, receives = {};
  std::vector<Gather> gathers = {};

  bool is_empty() const { return sends.empty() && receives.empty() && gathers.empty(); }
};

// Transfers and the work of run() go one after another, in the order of the calls, in parallel with the device's other
// work: in the exchange's queue. No call waits for the device.
//
// Not thread-safe. Every worker must request the same groups of transfers in the same order. If a worker is lost, the
// rest is released once the stage is aborted; transfers in progress then leave arbitrary bytes.
class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;  // after ComputeDevice::finish()
  DeviceExchange() = default;
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;

  // Makes later transfers and work of run() wait for all earlier work of the device.
  virtual void follow() = 0;

  virtual void transfer(const TransferGroup& group) = 0;

  // Calls `work`: what it requests of the device, by operators or by ComputeDevice::queue(), goes to the exchange's
  // queue.
  virtual void run(const std::function<void()>& work) = 0;

  // Returns a function that makes later work of the device wait for the exchange's queue, as far as it is full now.
  virtual std::function<void()> mark() = 0;
  // Makes later work of the device wait for all transfers and all work of run().
  void join() { mark()(); }

  // Call this after ComputeDevice::finish(). Throws Fault::device if transfers failed and the stage is not aborted.
  virtual void check() = 0;

  // Makes the first transfers between all workers, which take long: every worker calls this function before its other
  // transfers, in the thread of the device's work. `beat` is called while waiting. Returns false on abort. Throws
  // Fault::device.
  virtual bool connect(std::function<void()> beat) = 0;
};

}  // namespace estrain::device
