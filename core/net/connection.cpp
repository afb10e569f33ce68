#include "core/net/connection.h"

#include <charconv>
#include <memory>
#include <utility>

#include "core/net/tls.h"
#include "core/net/tls_connection.h"

namespace estrain::net {

using asio::ip::tcp;

std::string Address::text() const {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Address parse_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  const auto refuse = [&] {
    return Error::make(Fault::usage, "\"{}\" is no address", text).advise("give HOST:PORT, such as 10.0.0.1:7000");
  };
  if (colon == text.npos || colon == 0) throw refuse();
  Address address;
  const char* end = text.data() + text.size();
  const auto [at, failure] = std::from_chars(text.data() + colon + 1, end, address.port);
  if (failure != std::errc{} || at != end) throw refuse();
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  asio::io_context context;
  asio::error_code error;
  const auto found = tcp::resolver(context).resolve(host, "", tcp::resolver::passive, error);
  if (error || found.empty())
    throw Error::make(Fault::usage, "\"{}\" is no address and no host's name: {}", host, error.message());
  address.host = found.begin()->endpoint().address().to_string();
  return address;
}

namespace {

// Throws Fault::io.
void bind_to(tcp::socket& socket, const std::string& address) {
  try {
    const tcp::endpoint endpoint(asio::ip::make_address(address), 0);
    socket.open(endpoint.protocol());
    socket.bind(endpoint);
  } catch (const std::system_error& error) {
    throw Error::make(Fault::io, "cannot go out by the address {}: {}", address, error.code().message());
  }
}

}  // namespace

void connect(Loop& loop, const Key& key, const Call& call, std::function<void(ConnectionPtr, const Error* why)> done) {
  const Address& to = call.to;
  auto context = std::make_shared<asio::ssl::context>(tls_context(key, Side::client));
  Greeting own = call.own;
  own.to = call.host;
  auto connection =
      std::make_shared<TlsConnection>(loop, tcp::socket(loop.engine().context), std::move(context), std::move(own));
  asio::error_code error;
  const auto host = asio::ip::make_address(to.host, error);
  if (error) throw Error::make(Fault::usage, "\"{}\" is no address", to.host);
  if (!call.from.empty()) bind_to(connection->socket(), call.from);
  // The socket answers or it does not: the deadline of open() begins once it did.
  auto timer = loop.once(handshake_milliseconds, [weak = std::weak_ptr(connection)] {
    asio::error_code ignored;
    if (const auto waiting = weak.lock(); waiting && waiting->peer_address().empty()) waiting->socket().close(ignored);
  });
  connection->socket().async_connect(tcp::endpoint(host, to.port), [connection, to, timer,
                                                                    done = std::move(done)](asio::error_code failure) {
    if (failure) {
      const Error why = Error::make(Fault::peer, "cannot reach {}: {}", to.text(), failure.message());
      return done(nullptr, &why);
    }
    connection->open(asio::ssl::stream_base::client, handshake_milliseconds, [connection, done, to](const Error* why) {
      if (why == nullptr) return done(connection, nullptr);
      const Error within = why->within(to.text());
      done(nullptr, &within);
    });
  });
}

}  // namespace estrain::net
