#pragma once
// What a device copies to the host, in the order in which it was asked for: a thread waits for each copy, then calls
// what was to be done with it.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace estrain::device {

struct Arrival {
  std::function<void()> wait;  // until the copy is made; empty: there is nothing to wait for
  std::function<void()> then;  // keeps alive what the copy reads and writes
  size_t bytes = 0;            // of host memory that it holds
};

// Thread-safe.
class Arrivals {
 public:
  // `begin` is the first thing that the thread does.
  explicit Arrivals(std::function<void()> begin);
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  // From now on at most so many bytes of host memory are on the way at once (or one arrival, if it is larger).
  void set_room(size_t bytes);

  // Waits for room.
  void push(Arrival arrival);

  // Waits until all are through. Rethrows what the first of them that failed has thrown; those behind it are dropped.
  void finish();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable arrived_, taken_;
  std::deque<Arrival> waiting_;
  size_t under_way_ = 0;  // pushed and not through
  size_t bytes_under_way_ = 0;
  size_t room_ = SIZE_MAX;
  bool ends_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace estrain::device
