#pragma once
// The event loop for connections to other hosts: sockets, descriptors and timers of one thread (asio's io_context). All
// callbacks run in run(), which passes on exceptions of callbacks.

#include <functional>
#include <memory>

#include "core/base/clock.h"

namespace estrain::net {

// Raises the soft limit of this process's open descriptors to the hard limit. A process with a connection to each other
// host needs several descriptors a host, and many systems have a soft limit of 1024. Processes started later inherit
// the limit.
void allow_many_descriptors();

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();      // until stop()
  void stop();     // from a callback
  void restart();  // before another run()
  // Soon, from this thread or another.
  void post(std::function<void()> callback);
  // Drops `gone` soon: one of the callbacks of `gone` may be running.
  template <typename T>
  void drop_later(T gone) {
    post([held = std::make_shared<T>(std::move(gone))] {});
  }
  // Calls back as often as the descriptor has something to read, and never else, until the watch is dropped. The
  // descriptor stays the caller's, its file open until the watch is dropped. Throws Fault::io.
  class Watch;
  std::shared_ptr<Watch> watch(int fd, std::function<void()> readable);
  // Calls back every `interval`, or once after `delay`, until the timer is dropped.
  class Timer;
  std::shared_ptr<Timer> every(Nanoseconds interval, std::function<void()> callback);
  std::shared_ptr<Timer> once(Nanoseconds delay, std::function<void()> callback);

  struct Engine;  // asio's: for this folder
  Engine& engine() { return *engine_; }

 private:
  std::unique_ptr<Engine> engine_;
};

}  // namespace estrain::net
