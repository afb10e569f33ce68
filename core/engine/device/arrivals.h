#pragma once
// Processes copies from a device to the host in the order of requests. A thread waits for each copy, then calls the
// copy's continuation.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace estrain::device {

struct PendingArrival {
  std::function<void()> wait;  // waits for the copy; empty: nothing to wait for
  std::function<void()> then;  // the continuation; keeps alive the memory that the copy reads and writes
  size_t bytes = 0;            // host memory kept alive by `then`
};

// Thread-safe.
class Arrivals {
 public:
  // The thread first calls `begin`.
  explicit Arrivals(std::function<void()> begin);
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  // Limits the host memory of pending arrivals to this number of bytes (or to one arrival, if the arrival is larger).
  void set_room(size_t bytes);

  // Adds an arrival; waits while the limit is exceeded.
  void push(PendingArrival arrival);

  // Waits until all are done. Rethrows the exception of the first failed arrival; later arrivals were dropped.
  void finish();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable arrived_, taken_;
  std::deque<PendingArrival> waiting_;
  size_t under_way_ = 0;  // number of pushed arrivals not done yet
  size_t bytes_under_way_ = 0;
  size_t room_ = SIZE_MAX;
  bool ends_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace estrain::device
