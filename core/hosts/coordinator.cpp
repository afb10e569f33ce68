// The coordinator's courier as a process of its own (setup.h).

#include <memory>
#include <optional>
#include <utility>

#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/interface.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/hosts/commands/command_bridge.h"
#include "core/hosts/courier/courier.h"
#include "core/hosts/joining/registry.h"
#include "core/hosts/setup.h"
#include "core/state/run_directory/run_directory.h"
#include "core/state/run_directory/term.h"

namespace estrain::hosts {
namespace {

constexpr int kPatienceWithEndMs = 300;  // until the agents have heard that the run is over
constexpr int kBetweenTriesToListenMs = 2000;

// Reads the addresses of the hosts that the launcher names. Returns false if a host has no address: this host is lost.
bool find_agents(CourierSetup& setup, HostPlan& plan) {
  for (HostShare& host : plan.hosts) {
    if (host.name.empty()) continue;
    try {
      const HostFile file = read_host_file(setup.run, host.name);
      host.address = file.address;
      host.sees_run = file.sees_run;
    } catch (const Error& error) {
      setup.launcher.send({{"say", "host_lost"}, {"host", host.name}, {"why", error.message()}});
      return false;
    }
  }
  return true;
}

// Lets agents join at this host's address. If the port is in use, the run continues: the door tells it and retries.
class Door {
 public:
  Door(net::Loop& loop, const net::Key& key, std::string run, int64_t term)
      : loop_(loop), key_(key), run_(std::move(run)), term_(term) {}

  // Opens at the first address that the launcher names; ignores later addresses.
  void open(const Json& said) {
    if (!where_.empty()) return;
    where_ = said.value("listen", "");
    interface_ = said.value("interface", "");
    own_ = said.value("own", "");
    if (!where_.empty()) look_up();
  }
  void end_run() {
    if (registry_) registry_->end_run();
  }

 private:
  void look_up() {
    attempt([this] {
      const ListeningPlace place = place_to_listen(where_, interface_);
      if (net::is_number(place.named)) return listen(place, {place.named});
      look_up_.emplace(loop_, place.named, [this, place](const std::vector<net::Address>& found, const Error* why) {
        attempt([&] {
          if (why != nullptr) throw Error(*why);
          listen(place, found);
        });
      });
    });
  }

  void listen(const ListeningPlace& place, const std::vector<net::Address>& found) {
    registry_.emplace(loop_, key_,
                      Registry::Options{run_, own_, listening_address(place, found, listen_example), term_});
  }

  template <typename Act>
  void attempt(Act&& act) {
    try {
      act();
    } catch (const Error& error) {
      if (!retry_)
        run_directory::RunDirectory(run_).log_event("not_listening", {{"at", where_}, {"why", error.message()}});
      retry_ = loop_.once(kBetweenTriesToListenMs, [this] { look_up(); });
    }
  }

  net::Loop& loop_;
  const net::Key& key_;
  const std::string run_;
  const int64_t term_;
  std::string where_, interface_, own_;
  std::optional<LookUp> look_up_;
  std::optional<Registry> registry_;
  std::shared_ptr<net::Loop::Timer> retry_;
};

void run_courier(CourierSetup& setup) {
  net::Loop loop;
  const int64_t term = run_directory::term_of(setup.run).term;
  const net::Key key = net::Key::read_or_make(key_file(setup.run));
  CommandBridge commands(loop, key, setup.run, term);
  Door door(loop, key, setup.run, term);
  Courier courier(loop, {.key = key,
                         .own = own_greeting(name_of_run(setup.run), "", "courier", term),
                         .memory = setup.memory,
                         .doorbell = setup.doorbell,
                         .tell = [&setup](const Json& said) { setup.launcher.send(said); },
                         .opened =
                             [&](uint64_t stage) {
                               run_directory::write_term(setup.run, {term, stage});
                             },
                         .aborted = nullptr});
  std::shared_ptr<net::Loop::Timer> end;
  const auto go_out_by = [&](const std::string& interface) {
    courier.links().go_out_by(address_of_interface(interface));
    commands.go_out_by(address_of_interface(interface));
  };
  const auto socket = loop.watch(setup.launcher.descriptor(), [&] {
    Json said;
    switch (setup.launcher.receive(&said, 0)) {
      case comm::MessageSocket::Received::nothing:
        return;
      case comm::MessageSocket::Received::closed:
        return loop.stop();
      case comm::MessageSocket::Received::message:
        break;
    }
    const std::string interface = said.value("interface", "");
    if (!interface.empty()) go_out_by(interface);
    door.open(said);
    if (said.value("do", "") == "stage") {
      HostPlan plan = HostPlan::from_json(said.at("plan"));
      if (find_agents(setup, plan)) courier.begin_stage(std::move(plan));
      return;
    }
    if (said.value("do", "") != "finish") return;
    const bool goes_on = said.value("goes_on", false);
    courier.end_run(goes_on);
    if (!courier.gave_up() && !goes_on) door.end_run();
    end = loop.once(kPatienceWithEndMs, [&loop] { loop.stop(); });
  });
  loop.run();
}

}  // namespace
}  // namespace estrain::hosts

void estrain_run_courier(estrain::hosts::CourierSetup* setup) { estrain::hosts::run_courier(*setup); }
