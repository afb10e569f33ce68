// The relay between the launcher and the workers on other hosts (setup.h).

#include <unistd.h>

#include <list>
#include <memory>

#include "core/base/clock.h"
#include "core/base/process/packet_socket.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/interface.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/relay_messages.h"
#include "core/hosts/setup.h"
#include "core/state/run_directory/term.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kCourierFirst = 500ms;

// A RemoteWorker connects the launcher's two sockets for a worker (core/state/comm/messages/relay_messages.h) with the
// agent of the worker's host, until the worker ends, the host is lost, or the launcher gives the worker up.
class RemoteWorker : public std::enable_shared_from_this<RemoteWorker> {
 public:
  // `over`: called once, when the relay has no more to do for the worker.
  RemoteWorker(const RelaySetup& setup, net::Loop& loop, const comm::RelayCall& call, comm::MessageSocket socket,
               comm::MessageSocket life, std::function<void()> over)
      : setup_(setup),
        loop_(loop),
        call_(call),
        socket_(std::move(socket)),
        life_(std::move(life)),
        over_(std::move(over)) {}

  void begin() {
    watches_ = {loop_.watch(life_.descriptor(), [this] { drop(); }),
                loop_.watch(socket_.descriptor(), [this] { unless_failed([this] { on_launcher(); }); })};
    unless_failed([this] { connect(); });
  }

 private:
  template <typename Body>
  void unless_failed(Body&& body) {
    try {
      body();
    } catch (const Error& error) {
      fail(error);
    }
  }

  void connect() {
    net::connect(loop_, net::SharedKey::read(key_file(setup_.run)),
                 {.to = net::parse_address(address_of_agent()),
                  .host = call_.host,
                  .from = setup_.interface.empty() ? "" : address_of_interface(setup_.interface),
                  .own = own_greeting(name_of_run(setup_.run), "", "worker", run_directory::term_of(setup_.run).term)},
                 [weak = weak_from_this()](net::ConnectionPtr connection, const Error* why) {
                   const std::shared_ptr<RemoteWorker> worker = weak.lock();
                   if (!worker || worker->is_over_) {
                     if (connection) connection->close();
                   } else if (why != nullptr) {
                     worker->lose_host(*why);
                   } else {
                     worker->on_connected(std::move(connection));
                   }
                 });
  }

  // An agent removes its host file at its end.
  std::string address_of_agent() const {
    try {
      return read_host_file(setup_.run, call_.host).address;
    } catch (const Error& error) {
      throw host_lost(error);
    }
  }

  void on_connected(net::ConnectionPtr connection) {
    link_ = std::make_unique<MessageLink<RelayMessage, AgentMessage>>(
        std::move(connection),
        [this](const AgentMessage& said) { std::visit([this](const auto& one) { this->on_agent(one); }, said); },
        [this](const Error& why) { on_lost(why); });
    link_->send(StartRemoteWorker{call_.id, setup_.spec, call_.options});
    for (const comm::WorkerOrder& order : std::exchange(early_, {})) link_->send(RelayedOrder{order});
  }

  // The courier's word comes first: if this host is cut off, it must leave the run to other hosts.
  void on_lost(const Error& why) {
    patience_ = loop_.once(kCourierFirst, [this, why] { lose_host(why); });
  }

  void on_launcher() {
    Json said;
    for (;;) {
      switch (socket_.receive(&said, 0ms)) {
        case comm::Received::nothing:
          return;
        case comm::Received::closed:
          return drop();
        case comm::Received::message:
          break;
      }
      const auto order = codec::decode<comm::WorkerOrder>(said);
      if (const auto* lost = std::get_if<comm::HostLost>(&order)) return lose_host(Error(Fault::peer, lost->why));
      if (link_) {
        link_->send(RelayedOrder{order});
      } else {
        early_.push_back(order);
      }
    }
  }

  void on_agent(const RelayedReport& relayed) { socket_.send(codec::encode(relayed.report)); }
  void on_agent(const comm::RelayedEnd& ended) { end(ended); }

  Error host_lost(const Error& why) const {
    return Error::make(Fault::peer, "host {} is lost: {}", call_.host, why.message()).caused_by("host_lost");
  }
  void lose_host(const Error& why) { fail(host_lost(why)); }

  void fail(const Error& error) {
    socket_.send(codec::encode(comm::WorkerReport(comm::Failed(error))));
    end({.signaled = false, .code = exit_code(error.fault())});
  }

  void end(const comm::RelayedEnd& ended) {
    life_.send(codec::fields_of(ended));
    drop();
  }

  // The agent kills a worker whose connection ends.
  void drop() {
    if (std::exchange(is_over_, true)) return;
    over_();
  }

  const RelaySetup& setup_;
  net::Loop& loop_;
  const comm::RelayCall call_;
  comm::MessageSocket socket_, life_;
  std::function<void()> over_;
  bool is_over_ = false;
  std::vector<comm::WorkerOrder> early_;  // before the connection stands
  std::unique_ptr<MessageLink<RelayMessage, AgentMessage>> link_;
  std::vector<std::shared_ptr<net::Loop::Watch>> watches_;
  std::shared_ptr<net::Loop::Timer> patience_;
};

class Relay {
 public:
  explicit Relay(RelaySetup& setup) : setup_(setup) {}

  void run() {
    const auto calls = loop_.watch(setup_.launcher.get(), [this] { take_call(); });
    loop_.run();
  }

 private:
  void take_call() {
    std::optional<Packet> packet = receive_packet(setup_.launcher.get(), comm::kLargestRelayCall, 2);
    if (!packet) ::_exit(0);  // the launcher has ended; agents kill the workers
    comm::RelayCall call;
    codec::from_field(parse_json(packet->bytes, "a call to the relay"), call);
    const auto at = workers_.emplace(workers_.end());
    *at = std::make_shared<RemoteWorker>(setup_, loop_, call, comm::MessageSocket(std::move(packet->descriptors.at(0))),
                                         comm::MessageSocket(std::move(packet->descriptors.at(1))), [this, at] {
                                           loop_.drop_later(std::move(*at));
                                           workers_.erase(at);
                                         });
    (*at)->begin();
  }

  RelaySetup& setup_;
  net::Loop loop_;
  std::list<std::shared_ptr<RemoteWorker>> workers_;
};

}  // namespace
}  // namespace estrain::hosts

void estrain_run_relay(estrain::hosts::RelaySetup* setup) {
  // A worker takes five descriptors: its two sockets, each with the copy of its watch, and a connection.
  estrain::net::allow_many_descriptors();
  estrain::hosts::Relay(*setup).run();
}
