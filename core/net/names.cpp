#include "core/net/names.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/files/unique_fd.h"
#include "core/net/engine.h"

namespace estrain::net {

using asio::ip::tcp;

Address split_address(const std::string& text) {
  const auto refuse = [&] {
    return Error::make(Fault::usage, "\"{}\" is no address", text).advise("give HOST:PORT, such as 10.0.0.1:7000");
  };
  const size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) throw refuse();
  Address address;
  const char* end = text.data() + text.size();
  const auto [at, failure] = std::from_chars(text.data() + colon + 1, end, address.port);
  if (failure != std::errc{} || at != end) throw refuse();
  address.host = text.substr(0, colon);
  const bool has_brackets = address.host.starts_with('[') && address.host.ends_with(']');
  if (has_brackets) address.host = address.host.substr(1, address.host.size() - 2);
  if (address.host.empty() || has_brackets != (address.host.find(':') != address.host.npos)) throw refuse();
  return address;
}

bool is_number(const Address& address) {
  asio::error_code error;
  asio::ip::make_address(address.host, error);
  return !error;
}

// Shared with the thread, which may outlive everybody that waits for it.
struct LookUp::Errand {
  const Address named;
  const UniqueFd bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> is_back = false;  // what is below is written before it
  std::vector<Address> found;
  std::optional<Error> why;

  explicit Errand(Address wanted) : named(std::move(wanted)) {
    if (!bell) throw system_error("cannot create an event descriptor", errno);
  }

  void run() {
    asio::io_context context;
    asio::error_code error;
    for (const auto& entry : tcp::resolver(context).resolve(named.host, "", tcp::resolver::passive, error))
      found.push_back({entry.endpoint().address().to_string(), named.port});
    if (found.empty()) why = Error::make(Fault::peer, "the name {} leads nowhere: {}", named.host, error.message());
    is_back = true;
    const uint64_t one = 1;
    (void)!::write(bell.get(), &one, sizeof one);
  }

  // Signals are for the thread that forks and waits.
  static std::shared_ptr<Errand> send(const Address& named) {
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

std::vector<Address> look_up_within(const Address& named, int patience_ms) {
  if (is_number(named)) return {named};
  const auto errand = LookUp::Errand::send(named);
  pollfd bell{errand->bell.get(), POLLIN, 0};
  while (::poll(&bell, 1, patience_ms) < 0 && errno == EINTR) {
  }
  if (!errand->is_back) throw Error::make(Fault::peer, "the name {} leads nowhere: no name server answers", named.host);
  if (errand->why) throw Error(*errand->why);
  return errand->found;
}

LookUp::LookUp(Loop& loop, const Address& named, Done done) : errand_(Errand::send(named)), done_(std::move(done)) {
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

}  // namespace estrain::net
