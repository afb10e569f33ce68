#include "core/hosts/joining/joining.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/name_holder.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kBetweenGreetings = 1s;                     // of the registry
constexpr Nanoseconds kBetweenJoins = 500ms, kBetweenSigns = 1s;  // of an agent
constexpr Nanoseconds kSilentRegistry = 5s;  // a launcher's host that stands still keeps its connections

}  // namespace

AgentRegistry::AgentRegistry(net::Loop& loop, const net::SharedKey& key, Options options)
    : loop_(loop),
      key_(key),
      options_(std::move(options)),
      strangers_(loop, options_.run, options_.own),
      listener_(loop, key,
                {.at = options_.at,
                 .own = own_greeting(name_of_run(options_.run), "", "registry", options_.term),
                 .accepted = [this](net::ConnectionPtr connection) { take(std::move(connection)); },
                 .refused = [this](const std::string& from, const Error& why) { strangers_.note(from, why); }}) {
  timer_ = loop.every(kBetweenGreetings, [this] {
    for (auto& [number, guest] : guests_) guest.link->send(StillHere{});
  });
}

void AgentRegistry::take(net::ConnectionPtr connection) {
  if (connection->peer().purpose != "join" || guests_.size() >= most_guests) return connection->close();
  const int64_t number = next_++;
  Guest& guest = guests_[number];
  guest.name = connection->peer().host;
  guest.link = std::make_unique<MessageLink<RegistryMessage, GuestMessage>>(
      std::move(connection),
      [this, number](const GuestMessage& said) {
        if (const auto* joins = std::get_if<Joins>(&said)) hear(number, *joins);
      },
      [this, number](const Error&) { lose(number); });
  if (over_) guest.link->send(RunIsOver{});
}

void AgentRegistry::hear(int64_t number, const Joins& said) {
  const auto at = guests_.find(number);
  if (at == guests_.end() || std::exchange(at->second.asked, true)) return;
  at->second.address = said.address;
  try {
    require_sound(at->second);
    judge(number);
  } catch (const Error& error) {
    refuse(number, error);
  }
}

void AgentRegistry::require_sound(const Guest& guest) const {
  require_host_name(guest.name);
  if (guest.name == options_.own)
    throw Error::make(Fault::usage, "{} is the name of the launcher's own host", guest.name)
        .advise("give this agent another name: --name");
  net::parse_address(guest.address);
}

// An agent that comes anew has the old address. Another agent with the name may be a guest already, or listen on its
// own host. A host file without a living agent does not block the name.
void AgentRegistry::judge(int64_t number) {
  const Guest guest{guests_.at(number).name, guests_.at(number).address, nullptr};
  const auto same = std::ranges::find_if(guests_, [&](const auto& entry) {
    return entry.first != number && entry.second.joined && entry.second.name == guest.name;
  });
  if (same != guests_.end()) {
    if (same->second.address != guest.address) throw name_is_taken(guest.name, same->second.address);
    drop(same->first);
    return enrol(number);
  }
  const auto file = read_host_file_if_sound(options_.run, guest.name);
  if (!file || file->address == guest.address) return enrol(number);
  ask_for_name(number, file->address);
}

void AgentRegistry::ask_for_name(int64_t number, const std::string& address) {
  ask_who_listens(loop_, key_, options_.run, guests_.at(number).name, address, [this, number, address](bool lives) {
    const auto at = guests_.find(number);
    if (at == guests_.end()) return;
    lives ? refuse(number, name_is_taken(at->second.name, address)) : enrol(number);
  });
}

void AgentRegistry::enrol(int64_t number) {
  Guest& guest = guests_.at(number);
  try {
    write_host_file(options_.run, guest.name, {guest.address, false});
  } catch (const Error& error) {
    return refuse(number, error);
  }
  guest.joined = true;
  run_directory::RunDirectory(options_.run)
      .log_event("agent_joined", {{"host", guest.name}, {"address", guest.address}});
  guest.link->send(HasJoined{});
}

// The agent closes the connection after reading the refusal.
void AgentRegistry::refuse(int64_t number, const Error& why) {
  Guest& guest = guests_.at(number);
  strangers_.note(guest.link->connection().peer_address(), why);
  guest.link->send(comm::Failed(why));
}

// The agent has gone, or is silent. A host file written since, by the agent or by another registry,
// stays.
void AgentRegistry::lose(int64_t number) {
  const auto at = guests_.find(number);
  if (at == guests_.end()) return;
  const Guest& guest = at->second;
  if (guest.joined) remove_host_file(options_.run, guest.name, {guest.address, false});
  drop(number);
}

void AgentRegistry::drop(int64_t number) {
  const auto at = guests_.find(number);
  loop_.drop_later(std::move(at->second.link));
  guests_.erase(at);
}

void AgentRegistry::end_run() {
  over_ = true;
  for (auto& [number, guest] : guests_) guest.link->send(RunIsOver{});
}

bool AgentRegistry::awaits_guests() const {
  return std::ranges::any_of(names_of_host_files(options_.run), [this](const std::string& name) {
    const auto file = read_host_file_if_sound(options_.run, name);
    const auto has_come = [&](const auto& entry) { return entry.second.joined && entry.second.name == name; };
    return file && !file->sees_run && std::ranges::none_of(guests_, has_come);
  });
}

Registration::Registration(net::Loop& loop, const net::SharedKey& key, Options options)
    : loop_(loop), key_(key), options_(std::move(options)), attended_(MonotonicClock::now()) {
  timer_ = loop.every(kBetweenJoins, [this] { look(); });
  beats_ = loop.every(kBetweenSigns, [this] {
    if (link_) link_->send(StillHere{});
  });
  try_to_connect();
}

void Registration::look() {
  if (link_ && MonotonicClock::now() - heard_ > kSilentRegistry) lose(Error(Fault::peer, "it is silent"));
  if (!link_ && !reaching_ && !over_) try_to_connect();
}

bool Registration::is_given_up(bool belongs, Nanoseconds patience) {
  const MonotonicTime now = MonotonicClock::now();
  if (joined_ || belongs) attended_ = now;
  return now - attended_ > patience;
}

void Registration::try_to_connect() {
  try {
    const net::Address named = net::split_address(options_.to);
    reaching_ = true;
    if (net::is_number(named)) return connect(named);
    look_up_.emplace(loop_, named, [this](const std::vector<net::Address>& found, const Error* why) {
      if (why != nullptr) return fail(*why);
      connect(found[tries_++ % found.size()]);
    });
  } catch (const Error& error) {
    fail(error);
  }
}

void Registration::connect(const net::Address& to) {
  try {
    net::connect(loop_, key_,
                 {.to = to, .host = "", .from = options_.from, .own = own_greeting(run_, options_.name, "join", 0)},
                 [this, weak = std::weak_ptr(alive_)](net::ConnectionPtr connection, const Error* why) {
                   if (weak.expired()) {
                     if (connection) connection->close();
                     return;
                   }
                   reaching_ = false;
                   why == nullptr ? take(std::move(connection)) : fail(*why);
                 });
  } catch (const Error& error) {
    fail(error);
  }
}

// Another key, or a text that is no address, is final. After other failures, the registry may still come.
void Registration::fail(const Error& why) {
  reaching_ = false;
  why_ = why;
  if (why.fault() == Fault::mismatch || why.fault() == Fault::usage) refuse(why);
}

void Registration::take(net::ConnectionPtr connection) {
  heard_ = MonotonicClock::now();
  link_ = std::make_unique<MessageLink<GuestMessage, RegistryMessage>>(
      std::move(connection), [this](const RegistryMessage& said) { hear(said); },
      [this](const Error& why) { lose(why); });
  link_->send(Joins{options_.address});
}

void Registration::hear(const RegistryMessage& said) {
  if (!link_) return;  // lost meanwhile
  heard_ = MonotonicClock::now();
  if (const auto* refused = std::get_if<comm::Failed>(&said)) {
    hear_refusal(refused->error());
  } else if (std::holds_alternative<RunIsOver>(said)) {
    options_.ended();
  } else if (std::holds_alternative<HasJoined>(said) && !joined_) {
    hear_joined();
  }
}

void Registration::hear_refusal(const Error& why) { why.fault() == Fault::io ? lose(why) : refuse(why); }

void Registration::hear_joined() {
  const net::Greeting& registry = link_->connection().peer();
  if (!options_.joined(registry)) return lose(Error(Fault::peer, "the coordinator there is an earlier one"));
  run_ = registry.run;
  joined_ = was_joined_ = true;
}

void Registration::lose(const Error& why) {
  why_ = why;
  joined_ = false;
  loop_.drop_later(std::move(link_));
}

void Registration::refuse(const Error& why) {
  over_ = true;
  joined_ = false;
  if (link_) loop_.drop_later(std::move(link_));
  options_.refused(why);
}

void Registration::renew() {
  if (link_) lose(Error(Fault::peer, "this host has let go of its coordinator"));
}

}  // namespace estrain::hosts
