#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace estrain::testing {

// Like cpulimit: the process runs a quarter of the time.
class Throttled {
 public:
  explicit Throttled(pid_t pid)
      : thread_([pid](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            ::kill(pid, SIGSTOP);
            std::this_thread::sleep_for(std::chrono::milliseconds(15));
            ::kill(pid, SIGCONT);
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace estrain::testing
