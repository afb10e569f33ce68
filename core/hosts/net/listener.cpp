#include "core/hosts/net/listener.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/hosts/net/tcp_socket.h"
#include "core/hosts/net/tls.h"
#include "core/hosts/net/tls_connection.h"

namespace estrain::net {

using asio::ip::tcp;

namespace {

constexpr Nanoseconds kRest = 100ms;

}  // namespace

struct Listener::Ears : std::enable_shared_from_this<Ears> {
  Ears(Loop& on, const SharedKey& key, Options wanted)
      : loop(on),
        options(std::move(wanted)),
        context(std::make_shared<asio::ssl::context>(tls_context(key, Side::server))),
        acceptor(on.engine().context) {
    try {
      const tcp::endpoint endpoint(asio::ip::make_address(options.at.host), options.at.port);
      acceptor.open(endpoint.protocol());
      close_on_exec(acceptor.native_handle());
      acceptor.set_option(tcp::acceptor::reuse_address(true));
      acceptor.bind(endpoint);
      acceptor.listen();
      options.at = address_of(acceptor.local_endpoint());
    } catch (const std::system_error& error) {
      throw Error::make(Fault::io, "cannot listen on {}: {}", options.at.text(), error.code().message());
    }
  }

  void listen() {
    acceptor.async_accept([self = shared_from_this()](asio::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || self->ended) return;
      if (error) return self->rest(error);
      close_on_exec(socket.native_handle());
      self->meet(std::move(socket));
      self->listen();
    });
  }

  // Without a descriptor left, whoever waits at the port would be offered again at once, for ever.
  void rest(const asio::error_code& error) {
    options.refused("", Error::make(Fault::io, "cannot take a connection: {}", error.message()));
    pause = loop.once(kRest, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self && !self->ended) self->listen();
    });
  }

  void meet(tcp::socket socket) {
    asio::error_code gone;
    const auto endpoint = socket.remote_endpoint(gone);
    if (gone) return;
    const uint64_t number = ++count;
    const Places::Admission answer = places.ask(number, endpoint.address().to_string());
    if (answer.gives_way) turn_out(*answer.gives_way);
    if (answer.is == Places::Admission::Is::is_refused) return options.refused(address_of(endpoint).text(), no_place());
    if (answer.is == Places::Admission::Is::enters) return begin(number, std::move(socket));
    waiting.emplace(number, std::move(socket));
  }

  void begin(uint64_t number, tcp::socket socket) {
    auto connection = std::make_shared<TlsConnection>(loop, std::move(socket), context, options.own);
    strangers[number] = connection;
    connection->open(asio::ssl::stream_base::server, options.patience,
                     [self = shared_from_this(), connection, number](const Error* why) {
                       self->strangers.erase(number);
                       if (self->ended) return;
                       if (why == nullptr) self->places.know(number);
                       self->leave(number);
                       if (why != nullptr) return self->options.refused(connection->peer_address(), *why);
                       self->options.accepted(connection);
                     });
  }

  void leave(uint64_t number) {
    for (const uint64_t next : places.leave(number)) {
      const auto at = waiting.find(next);
      tcp::socket socket = std::move(at->second);
      waiting.erase(at);
      begin(next, std::move(socket));
    }
  }

  void turn_out(uint64_t number) {
    const auto at = strangers.find(number);
    const std::shared_ptr<TlsConnection> connection = std::move(at->second);
    strangers.erase(at);
    connection->close();
    options.refused(connection->peer_address(), no_place());
  }

  static Error no_place() { return Error(Fault::peer, "too many connections wait for a greeting"); }

  Loop& loop;
  Options options;
  std::shared_ptr<asio::ssl::context> context;
  tcp::acceptor acceptor;
  // Connections that have not greeted yet, by number: with a place, and without a place.
  std::map<uint64_t, std::shared_ptr<TlsConnection>> strangers;
  std::map<uint64_t, tcp::socket> waiting;
  Places places;
  uint64_t count = 0;
  std::shared_ptr<Loop::Timer> pause;
  bool ended = false;
};

Listener::Listener(Loop& loop, const SharedKey& key, Options options)
    : ears_(std::make_shared<Ears>(loop, key, std::move(options))) {
  ears_->listen();
}

Listener::~Listener() {  // NOLINT(bugprone-exception-escape)
  ears_->ended = true;
  for (const auto& [number, stranger] : std::exchange(ears_->strangers, {})) stranger->close();
  ears_->waiting.clear();
  ears_->pause.reset();
  asio::error_code ignored;
  ears_->acceptor.close(ignored);
}

const Address& Listener::address() const { return ears_->options.at; }
void Listener::serve_run(const std::string& name) { ears_->options.own.run = name; }

size_t Places::count(bool waiting) const {
  return static_cast<size_t>(std::ranges::count(all_, waiting, &Newcomer::waits));
}

size_t Places::count(const std::string& address, bool waiting) const {
  return static_cast<size_t>(
      std::ranges::count_if(all_, [&](const Newcomer& one) { return one.waits == waiting && one.address == address; }));
}

size_t Places::part_of(const std::string& address) const {
  return known_.contains(address) ? most : most_of_a_stranger;
}

Places::Admission Places::ask(uint64_t number, const std::string& address) {
  if (count(address, false) >= part_of(address)) {
    if (count(true) >= most_waiting || count(address, true) >= most_waiting_of_an_address)
      return {Admission::Is::is_refused, {}};
    all_.push_back({number, address, true});
    return {Admission::Is::waits, {}};
  }
  const auto gives_way = make_room();
  all_.push_back({number, address, false});
  return {Admission::Is::enters, gives_way};
}

std::optional<uint64_t> Places::make_room() {
  if (count(false) < most) return std::nullopt;
  const auto goes_first = [&](const Newcomer& one) {
    return std::tuple(!one.waits, !known_.contains(one.address), count(one.address, false));
  };
  const auto at = std::ranges::max_element(all_, {}, goes_first);  // the first of several: the oldest
  const uint64_t number = at->number;
  all_.erase(at);
  return number;
}

std::vector<uint64_t> Places::leave(uint64_t number) {
  std::vector<uint64_t> enter;
  std::erase_if(all_, [&](const Newcomer& one) { return one.number == number; });
  for (Newcomer& one : all_) {
    if (!one.waits || count(false) >= most || count(one.address, false) >= part_of(one.address)) continue;
    one.waits = false;
    enter.push_back(one.number);
  }
  return enter;
}

void Places::know(uint64_t number) {
  const auto at = std::ranges::find(all_, number, &Newcomer::number);
  if (at != all_.end() && known_.size() < most_known) known_.insert(at->address);
}

}  // namespace estrain::net
