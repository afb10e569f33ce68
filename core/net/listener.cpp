#include <set>
#include <utility>

#include "core/net/tls.h"
#include "core/net/tls_connection.h"

namespace estrain::net {

using asio::ip::tcp;

struct Listener::Ears : std::enable_shared_from_this<Ears> {
  Ears(Loop& on, const Key& key, Options wanted)
      : loop(on),
        options(std::move(wanted)),
        context(std::make_shared<asio::ssl::context>(tls_context(key, Side::server))),
        acceptor(on.engine().context) {
    try {
      const tcp::endpoint endpoint(asio::ip::make_address(options.at.host), options.at.port);
      acceptor.open(endpoint.protocol());
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
      if (error == asio::error::operation_aborted) return;
      if (!error) self->meet(std::move(socket));
      self->listen();
    });
  }

  void meet(tcp::socket socket) {
    if (strangers.size() >= most_strangers) return;
    auto connection = std::make_shared<TlsConnection>(loop, std::move(socket), context, options.own);
    strangers.insert(connection);
    connection->open(asio::ssl::stream_base::server, options.patience_ms,
                     [self = shared_from_this(), connection](const Error* why) {
                       self->strangers.erase(connection);
                       if (self->ended) return;
                       if (why != nullptr) return self->options.refused(connection->peer_address(), *why);
                       self->options.accepted(connection);
                     });
  }

  Loop& loop;
  Options options;
  std::shared_ptr<asio::ssl::context> context;
  tcp::acceptor acceptor;
  std::set<std::shared_ptr<TlsConnection>> strangers;
  bool ended = false;
};

Listener::Listener(Loop& loop, const Key& key, Options options)
    : ears_(std::make_shared<Ears>(loop, key, std::move(options))) {
  ears_->listen();
}

Listener::~Listener() {
  ears_->ended = true;
  for (const auto& stranger : std::exchange(ears_->strangers, {})) stranger->close();
  asio::error_code ignored;
  ears_->acceptor.close(ignored);
}

const Address& Listener::address() const { return ears_->options.at; }
void Listener::serve_run(const std::string& name) { ears_->options.own.run = name; }

}  // namespace estrain::net
