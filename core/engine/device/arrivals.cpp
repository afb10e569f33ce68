#include "core/engine/device/arrivals.h"

#include <utility>

namespace estrain::device {

Arrivals::Arrivals(std::function<void()> begin)
    : thread_([this, begin = std::move(begin)] {
        begin();
        work();
      }) {}

Arrivals::~Arrivals() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

void Arrivals::set_room(size_t bytes) {
  const std::lock_guard lock(mutex_);
  room_ = bytes;
}

void Arrivals::push(PendingArrival arrival) {
  {
    std::unique_lock lock(mutex_);
    taken_.wait(lock, [&] { return bytes_under_way_ == 0 || bytes_under_way_ + arrival.bytes <= room_; });
    under_way_ += 1;
    bytes_under_way_ += arrival.bytes;
    waiting_.push_back(std::move(arrival));
  }
  arrived_.notify_one();
}

void Arrivals::finish() {
  std::unique_lock lock(mutex_);
  taken_.wait(lock, [&] { return under_way_ == 0; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Arrivals::work() {
  for (;;) {
    PendingArrival arrival;
    bool drops = false;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      arrival = std::move(waiting_.front());
      waiting_.pop_front();
      drops = failure_ != nullptr;
    }
    const size_t bytes = arrival.bytes;
    std::exception_ptr failure;
    try {
      // Waits even if the arrival is dropped: the copy still reads and writes memory owned by the arrival.
      if (arrival.wait) arrival.wait();
      if (!drops) arrival.then();
    } catch (...) {
      failure = std::current_exception();
    }
    arrival = {};  // free the arrival's memory before notifying waiters
    {
      const std::lock_guard lock(mutex_);
      if (failure && !failure_) failure_ = failure;
      under_way_ -= 1;
      bytes_under_way_ -= bytes;
    }
    taken_.notify_all();
  }
}

}  // namespace estrain::device
