#include "core/hosts/net/connection.h"

#include <charconv>
#include <memory>
#include <utility>

#include "core/hosts/net/tcp_socket.h"
#include "core/hosts/net/tls.h"
#include "core/hosts/net/tls_connection.h"

namespace estrain::net {

using asio::ip::tcp;

std::string Address::text() const {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

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

Address parse_address(const std::string& text) {
  Address address = split_address(text);
  asio::error_code error;
  const auto number = asio::ip::make_address(address.host, error);
  if (error || address.port == 0)
    throw Error::make(Fault::usage, "\"{}\" is no address with a port", text)
        .advise("give one such as 10.0.0.2:7000 or [fd00::2]:7000: names are not looked up here");
  if (number.is_v6() && number.to_v6().is_link_local() && number.to_v6().scope_id() == 0)
    throw Error::make(Fault::usage, "{}: an address of one link, without an interface of this host", text)
        .advise("add it, such as [fe80::2%eth0]:7000");
  address.host = number.to_string();
  return address;
}

namespace {

// Throws Fault::io.
void bind_to(tcp::socket& socket, const std::string& address) {
  try {
    socket.bind(tcp::endpoint(asio::ip::make_address(address), 0));
  } catch (const std::system_error& error) {
    throw Error::make(Fault::io, "cannot go out by the address {}: {}", address, error.code().message());
  }
}

std::shared_ptr<asio::ssl::context> outgoing_settings(Loop::Engine& engine, const SharedKey& key) {
  auto& known = engine.outgoing;
  if (!known || known->key.bytes() != key.bytes())
    known.emplace(Loop::Engine::Outgoing{key, std::make_shared<asio::ssl::context>(tls_context(key, Side::client))});
  return known->settings;
}

}  // namespace

void connect(Loop& loop, const SharedKey& key, const OutgoingCall& call,
             std::function<void(ConnectionPtr, const Error* why)> done) {
  const Address& to = call.to;
  Greeting own = call.own;
  own.to = call.host;
  auto connection = std::make_shared<TlsConnection>(loop, tcp::socket(loop.engine().context),
                                                    outgoing_settings(loop.engine(), key), std::move(own));
  asio::error_code error;
  const auto host = asio::ip::make_address(to.host, error);
  if (error) throw Error::make(Fault::usage, "\"{}\" is no address", to.host);
  connection->socket().open(tcp::endpoint(host, to.port).protocol(), error);
  if (error) throw Error::make(Fault::io, "no socket for a connection to {}: {}", to.text(), error.message());
  close_on_exec(connection->socket().native_handle());
  if (!call.from.empty()) bind_to(connection->socket(), call.from);
  // The socket may never answer: the deadline of open() begins only after the answer.
  auto timer = loop.once(handshake_limit, [weak = std::weak_ptr(connection)] {
    asio::error_code ignored;
    if (const auto waiting = weak.lock(); waiting && waiting->peer_address().empty()) waiting->socket().close(ignored);
  });
  connection->socket().async_connect(
      tcp::endpoint(host, to.port), [connection, to, timer, done = std::move(done)](asio::error_code failure) {
        if (failure) {
          const Error why = Error::make(Fault::peer, "cannot reach {}: {}", to.text(), failure.message());
          return done(nullptr, &why);
        }
        connection->open(asio::ssl::stream_base::client, handshake_limit, [connection, done, to](const Error* why) {
          if (why == nullptr) return done(connection, nullptr);
          const Error within = why->within(to.text());
          done(nullptr, &within);
        });
      });
}

}  // namespace estrain::net
