// The coordinator's courier as a process of its own (setup.h).

#include <malloc.h>

#include <memory>
#include <optional>
#include <utility>

#include "core/base/clock.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/interface.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/hosts/commands/commands.h"
#include "core/hosts/courier/courier.h"
#include "core/hosts/joining/joining.h"
#include "core/hosts/setup.h"
#include "core/state/run_directory/run_directory.h"
#include "core/state/run_directory/term.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kPatienceWithEnd = 300ms;      // until the agents have heard that the run is over
constexpr Nanoseconds kPatienceWithGuests = 1200ms;  // if agents that have joined have yet to come again
constexpr Nanoseconds kBetweenTriesToListen = 2s;

void tell_launcher(CourierSetup& setup, const OwnerMessage& said) { setup.launcher.send(codec::encode(said, "say")); }

// Reads the addresses of the hosts that the launcher names. Returns false if a host has no address: this host is lost.
bool find_agents(CourierSetup& setup, HostPlan& plan) {
  for (HostShare& host : plan.hosts) {
    if (host.name.empty()) continue;
    try {
      const HostFile file = read_host_file(setup.run, host.name);
      host.address = file.address;
      host.sees_run = file.sees_run;
    } catch (const Error& error) {
      tell_launcher(setup, LostHost{host.name, error.message()});
      return false;
    }
  }
  return true;
}

// Lets agents join at this host's address. If the port is in use, the run continues: the door tells it and retries.
class Door {
 public:
  Door(net::Loop& loop, const net::SharedKey& key, std::string run, int64_t term)
      : loop_(loop), key_(key), run_(std::move(run)), term_(term) {}

  // Opens at the first address that the launcher names; ignores later addresses.
  void open(const OwnPlaces& places) {
    if (!places_.listen.empty()) return;
    places_ = places;
    if (!places_.listen.empty()) look_up();
  }
  void end_run() {
    over_ = true;
    if (registry_) registry_->end_run();
  }
  bool awaits_guests() const { return registry_ ? registry_->awaits_guests() : !places_.listen.empty(); }

 private:
  void look_up() {
    attempt([this] {
      const ListeningPlace place = place_to_listen(places_.listen, places_.interface);
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
    registry_.emplace(
        loop_, key_, AgentRegistry::Options{run_, places_.own, listening_address(place, found, listen_example), term_});
    if (over_) registry_->end_run();
  }

  template <typename Act>
  void attempt(Act&& act) {
    try {
      act();
    } catch (const Error& error) {
      if (!retry_)
        run_directory::RunDirectory(run_).log_event("not_listening",
                                                    {{"at", places_.listen}, {"why", error.message()}});
      retry_ = loop_.once(kBetweenTriesToListen, [this] { look_up(); });
    }
  }

  net::Loop& loop_;
  const net::SharedKey& key_;
  const std::string run_;
  const int64_t term_;
  OwnPlaces places_;
  std::optional<LookUp> look_up_;
  std::optional<AgentRegistry> registry_;
  bool over_ = false;
  std::shared_ptr<net::Loop::Timer> retry_;
};

class CoordinatorCourier {
 public:
  explicit CoordinatorCourier(CourierSetup& setup)
      : setup_(setup),
        term_(run_directory::term_of(setup.run).term),
        key_(net::SharedKey::read_or_make(key_file(setup.run))),
        commands_(loop_, key_, setup.run, term_),
        door_(loop_, key_, setup.run, term_),
        courier_(loop_, {.key = key_,
                         .own = own_greeting(name_of_run(setup.run), "", "courier", term_),
                         .memory = setup.memory,
                         .doorbell = setup.doorbell,
                         .tell = [&setup](const OwnerMessage& said) { tell_launcher(setup, said); },
                         .opened =
                             [this](uint64_t stage) {
                               run_directory::write_term(setup_.run, {term_, stage});
                             },
                         .aborted = nullptr}),
        socket_(loop_.watch(setup.launcher.descriptor(), [this] { on_launcher(); })) {}

  void run() { loop_.run(); }

 private:
  void on_launcher() {
    Json said;
    switch (setup_.launcher.receive(&said, 0ms)) {
      case comm::MessageSocket::Received::nothing:
        return;
      case comm::MessageSocket::Received::closed:
        return loop_.stop();
      case comm::MessageSocket::Received::message:
        return std::visit([this](const auto& order) { hear(order); }, codec::decode<LauncherMessage>(said, "do"));
    }
  }

  void hear(const LauncherPlan& order) {
    prepare(order);
    order.plan.require_sound();
    HostPlan plan = order.plan;
    if (find_agents(setup_, plan)) courier_.begin_stage(std::move(plan));
  }

  void hear(const ServeAgents& order) { prepare(order); }

  void hear(const FinishRun& order) {
    courier_.end_run(order.goes_on);
    const bool is_over = !courier_.gave_up() && !order.goes_on;
    if (is_over) door_.end_run();
    const bool waits = is_over && door_.awaits_guests();
    end_ = loop_.once(waits ? kPatienceWithGuests : kPatienceWithEnd, [this] { loop_.stop(); });
  }

  void prepare(const OwnPlaces& places) {
    if (!places.interface.empty()) go_out_by(address_of_interface(places.interface));
    door_.open(places);
  }

  void go_out_by(const std::string& address) {
    courier_.links().go_out_by(address);
    commands_.go_out_by(address);
  }

  CourierSetup& setup_;
  net::Loop loop_;
  const int64_t term_;
  const net::SharedKey key_;
  CommandBridge commands_;
  Door door_;
  Courier courier_;
  std::shared_ptr<net::Loop::Timer> end_;
  std::shared_ptr<net::Loop::Watch> socket_;
};

}  // namespace
}  // namespace estrain::hosts

void estrain_run_courier(estrain::hosts::CourierSetup* setup) {
  estrain::net::allow_many_descriptors();
  // Memory of large frames, of which many hosts have some on their way at a stage's begin, is given back when freed.
  ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
  estrain::hosts::CoordinatorCourier(*setup).run();
}
