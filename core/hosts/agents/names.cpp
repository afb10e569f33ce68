#include "core/hosts/agents/names.h"

#include <netdb.h>
#include <sys/eventfd.h>

#include <atomic>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/files/poll_set.h"
#include "core/base/files/unique_fd.h"

namespace estrain::hosts {

// Shared with the thread, which may outlive every waiting caller.
struct LookUp::Errand {
  const net::Address named;
  const UniqueFd bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> is_back = false;  // the fields below are written before
  std::vector<net::Address> found;
  std::optional<Error> why;

  explicit Errand(net::Address wanted) : named(std::move(wanted)) {
    if (!bell) throw system_error("cannot create an event descriptor", errno);
  }

  void run() {
    addrinfo wanted{}, *first = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    const int failure = ::getaddrinfo(named.host.c_str(), nullptr, &wanted, &first);
    for (const addrinfo* one = first; failure == 0 && one != nullptr; one = one->ai_next) {
      char number[NI_MAXHOST];
      if (::getnameinfo(one->ai_addr, one->ai_addrlen, number, sizeof number, nullptr, 0, NI_NUMERICHOST) == 0)
        found.push_back({number, named.port});
    }
    if (first != nullptr) ::freeaddrinfo(first);
    if (found.empty()) why = Error::make(Fault::peer, "the name {} leads nowhere: {}", named.host, words_of(failure));
    is_back = true;
    const uint64_t one = 1;
    (void)!::write(bell.get(), &one, sizeof one);
  }

  static const char* words_of(int failure) { return failure == 0 ? "it has no address" : ::gai_strerror(failure); }

  // Signals are for the thread that forks and waits.
  static std::shared_ptr<Errand> send(const net::Address& named) {
    auto errand = std::make_shared<Errand>(named);
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([errand] { errand->run(); }).detach();
    } catch (const std::system_error& error) {
      errand->why = Error::make(Fault::io, "cannot look the name {} up: {}", named.host, error.what());
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (errand->why) throw Error(*errand->why);
    return errand;
  }
};

std::vector<net::Address> look_up_within(const net::Address& named, Nanoseconds patience) {
  if (net::is_number(named)) return {named};
  const auto errand = LookUp::Errand::send(named);
  PollSet bell;
  bell.add(errand->bell.get(), POLLIN);
  bell.wait(std::chrono::ceil<std::chrono::milliseconds>(patience));
  if (!errand->is_back) throw Error::make(Fault::peer, "the name {} leads nowhere: no name server answers", named.host);
  if (errand->why) throw Error(*errand->why);
  return errand->found;
}

LookUp::LookUp(net::Loop& loop, const net::Address& named, Done done)
    : errand_(Errand::send(named)), done_(std::move(done)) {
  watch_ = loop.watch(errand_->bell.get(), [this] {
    uint64_t rung;
    (void)!::read(errand_->bell.get(), &rung, sizeof rung);
    if (!errand_->is_back || !done_) return;
    const auto errand = errand_;  // `done` may drop this
    const Done told = std::exchange(done_, nullptr);
    told(errand->found, errand->why ? &*errand->why : nullptr);
  });
}

LookUp::~LookUp() = default;

}  // namespace estrain::hosts
