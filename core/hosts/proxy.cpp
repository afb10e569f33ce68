// Stands in for a worker on another host (setup.h).

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "core/base/clock.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/interface.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/proxy_messages.h"
#include "core/hosts/setup.h"
#include "core/state/run_directory/term.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kCourierFirst = 500ms;

class Proxy {
 public:
  explicit Proxy(ProxySetup& setup) : setup_(setup) {}

  void run() {
    const std::string address = find_agent();
    const net::SharedKey key = net::SharedKey::read(key_file(setup_.run));
    net::connect(loop_, key,
                 {.to = net::parse_address(address),
                  .host = setup_.host,
                  .from = setup_.interface.empty() ? "" : address_of_interface(setup_.interface),
                  .own = own_greeting(name_of_run(setup_.run), "", "worker", run_directory::term_of(setup_.run).term)},
                 [this](net::ConnectionPtr connection, const Error* why) {
                   if (why != nullptr) lose_host(*why);
                   begin(std::move(connection));
                 });
    loop_.run();
  }

 private:
  [[noreturn]] void lose_host(const Error& why) {
    throw Error::make(Fault::peer, "host {} is lost: {}", setup_.host, why.message()).caused_by("host_lost");
  }

  // Agents that end remove their host files.
  std::string find_agent() {
    try {
      return read_host_file(setup_.run, setup_.host).address;
    } catch (const Error& error) {
      lose_host(error);
    }
  }

  // The courier's word comes first: if this host is cut off, it must leave the run to other hosts.
  void on_lost(const Error& why) {
    patience_ = loop_.once(kCourierFirst, [this, why] { lose_host(why); });
  }

  void begin(net::ConnectionPtr connection) {
    link_ = std::make_unique<MessageLink<ProxyMessage, AgentMessage>>(
        std::move(connection),
        [this](const AgentMessage& said) { std::visit([this](const auto& one) { this->on_agent(one); }, said); },
        [this](const Error& why) { on_lost(why); });
    comm::WorkerOptions options;
    codec::from_field(parse_json(setup_.options, "--options"), options);
    link_->send(StartRemoteWorker{setup_.id, setup_.spec, std::move(options)});
    socket_ = loop_.watch(setup_.launcher.descriptor(), [this] { on_launcher(); });
  }

  void on_launcher() {
    Json said;
    for (;;) {
      switch (setup_.launcher.receive(&said, 0ms)) {
        case comm::MessageSocket::Received::nothing:
          return;
        case comm::MessageSocket::Received::closed:
          ::_exit(0);
        case comm::MessageSocket::Received::message:
          break;
      }
      const auto order = codec::decode<comm::WorkerOrder>(said);
      if (const auto* lost = std::get_if<comm::HostLost>(&order)) lose_host(Error(Fault::peer, lost->why));
      link_->send(RelayedOrder{order});
    }
  }

  void on_agent(const RelayedReport& relayed) { setup_.launcher.send(codec::encode(relayed.report)); }

  // Ends as the worker ended.
  [[noreturn]] static void on_agent(const RemoteWorkerEnded& ended) {
    const int code = ended.code;
    if (!ended.signaled) ::_exit(code);
    const rlimit none = {0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(code, SIG_DFL);
    ::raise(code);
    ::_exit(128 + code);
  }

  ProxySetup& setup_;
  net::Loop loop_;
  std::unique_ptr<MessageLink<ProxyMessage, AgentMessage>> link_;
  std::shared_ptr<net::Loop::Watch> socket_;
  std::shared_ptr<net::Loop::Timer> patience_;
};

}  // namespace
}  // namespace estrain::hosts

void estrain_run_proxy(estrain::hosts::ProxySetup* setup) { estrain::hosts::Proxy(*setup).run(); }
