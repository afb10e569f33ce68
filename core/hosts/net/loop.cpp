#include "core/hosts/net/loop.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "core/base/error.h"
#include "core/base/files/unique_fd.h"
#include "core/hosts/net/engine.h"

namespace estrain::net {

// Waits for a copy of the caller's descriptor: the caller may close the descriptor first, and its number may serve
// another watch before this watch ends.
class Loop::Watch : public std::enable_shared_from_this<Watch> {
 public:
  Watch(Engine& engine, int fd, std::function<void()> readable)
      : copy_(copy_of(fd)), descriptor_(engine.context, copy_.get()), readable_(std::move(readable)) {}
  // Before the copy is closed: the system goes on to watch a closed descriptor while its file is open elsewhere.
  ~Watch() { descriptor_.release(); }

  void wait() {
    descriptor_.async_wait(asio::posix::descriptor_base::wait_read, [weak = weak_from_this()](asio::error_code error) {
      const auto self = weak.lock();
      if (!self || error) return;
      if (self->is_readable()) self->readable_();
      self->wait();
    });
  }

 private:
  // False: asio has given the place of a dropped watch to this watch, together with an event of the dropped watch.
  bool is_readable() const {
    pollfd polled{copy_.get(), POLLIN, 0};
    return ::poll(&polled, 1, 0) == 1;
  }

  static UniqueFd copy_of(int fd) {
    UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) throw system_error("cannot wait for a descriptor", errno);
    return copy;
  }

  const UniqueFd copy_;
  asio::posix::stream_descriptor descriptor_;
  std::function<void()> readable_;
};

class Loop::Timer : public std::enable_shared_from_this<Timer> {
 public:
  Timer(Engine& engine, Nanoseconds interval, std::function<void()> callback, bool again)
      : timer_(engine.context), interval_(interval), callback_(std::move(callback)), again_(again) {}

  void wait() {
    timer_.expires_after(interval_);
    timer_.async_wait([weak = weak_from_this()](asio::error_code error) {
      const auto self = weak.lock();
      if (!self || error) return;
      self->callback_();
      if (self->again_) self->wait();
    });
  }

 private:
  asio::steady_timer timer_;
  Nanoseconds interval_;
  std::function<void()> callback_;
  const bool again_;
};

void allow_many_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// OpenSSL writes to sockets that the peer may have closed: an error reports the closed socket, not a signal.
Loop::Loop() : engine_(std::make_unique<Engine>()) { ::signal(SIGPIPE, SIG_IGN); }
Loop::~Loop() = default;

void Loop::run() { engine_->context.run(); }
void Loop::stop() { engine_->context.stop(); }
void Loop::restart() { engine_->context.restart(); }
void Loop::post(std::function<void()> callback) { asio::post(engine_->context, std::move(callback)); }

std::shared_ptr<Loop::Watch> Loop::watch(int fd, std::function<void()> readable) {
  auto watch = std::make_shared<Watch>(*engine_, fd, std::move(readable));
  watch->wait();
  return watch;
}

std::shared_ptr<Loop::Timer> Loop::every(Nanoseconds interval, std::function<void()> callback) {
  auto timer = std::make_shared<Timer>(*engine_, interval, std::move(callback), true);
  timer->wait();
  return timer;
}

std::shared_ptr<Loop::Timer> Loop::once(Nanoseconds delay, std::function<void()> callback) {
  auto timer = std::make_shared<Timer>(*engine_, delay, std::move(callback), false);
  timer->wait();
  return timer;
}

}  // namespace estrain::net
