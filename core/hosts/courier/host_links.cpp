#include "core/hosts/courier/host_links.h"

#include <utility>

#include "core/base/clock.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kFarewell = 200ms;  // until a last message has left

}  // namespace

HostLinks::~HostLinks() {
  for (auto& [name, link] : links_) link->connection->close();
}

void HostLinks::reach(const std::string& name, const std::string& address, bool clear) {
  if (to(name) != nullptr || reaching_[name]) return;
  net::Greeting own = options_.own;
  own.purpose = "courier";
  own.clear = clear;
  net::connect(loop_, options_.key,
               {.to = net::parse_address(address), .host = name, .from = options_.from, .own = own},
               [this, name, weak = std::weak_ptr(alive_)](const net::ConnectionPtr& connection, const Error* why) {
                 if (weak.expired()) {
                   if (connection) connection->close();
                   return;
                 }
                 reaching_[name] = false;
                 if (why != nullptr) return drop(name, *why, false);
                 add(connection, name);
               });
  reaching_[name] = true;  // a call that throws has not begun
}

void HostLinks::take(const net::ConnectionPtr& connection) {
  const std::string name = connection->peer().host;
  if (net::Connection* old = to(name)) {  // the host has connected again, so the old connection is over
    old->close();
    links_.erase(name);
  }
  add(connection, name);
}

void HostLinks::add(const net::ConnectionPtr& connection, const std::string& name) {
  auto& link = links_[name] = std::make_unique<CourierLink>(
      connection,
      CourierLink::Hears{[this, name](const CourierMessage& said) { options_.message(name, said); },
                         [this, name](double round_trip, double bytes) {
                           options_.measured(name, round_trip, bytes);
                           measured_.reset();
                           measure_next();
                         },
                         [this, name](const net::FrameHead& head) { return options_.landing(name, head); }});
  connection->start(*link, [this, name, weak = std::weak_ptr(connection)](const Error& why) {
    const auto lost = weak.lock();
    if (lost && to(name) == lost.get()) drop(name, why, !lost->ended_by_peer());
  });
  if (leads()) {
    if (measured_ == name) measured_.reset();  // over the connection before
    std::erase(to_measure_, name);
    to_measure_.push_back(name);
    measure_next();
  }
  options_.connected(name);
}

void HostLinks::measure_next() {
  while (!measured_ && !to_measure_.empty()) {
    const auto at = links_.find(to_measure_.front());
    to_measure_.pop_front();
    if (at == links_.end()) continue;
    measured_ = at->first;
    at->second->measure();
  }
}

std::set<std::string> HostLinks::names() const {
  std::set<std::string> names;
  for (const auto& [name, link] : links_) names.insert(name);
  return names;
}

net::Connection* HostLinks::to(const std::string& name) const {
  const auto at = links_.find(name);
  return at == links_.end() ? nullptr : at->second->connection.get();
}

size_t HostLinks::state_arriving(const std::string& name) const {
  const auto at = links_.find(name);
  return at == links_.end() ? 0 : at->second->state_arriving;
}

bool HostLinks::tell(const std::string& name, const CourierMessage& said) {
  net::Connection* connection = to(name);
  if (connection != nullptr) send_message(*connection, said);
  return connection != nullptr;
}

void HostLinks::tell_all(const CourierMessage& said) {
  for (auto& [name, link] : links_) send_message(*link->connection, said);
}

void HostLinks::retry() {
  for (auto& [name, link] : links_) link->connection->retry();
}

// The link's own callbacks call this function, too: the link is deleted a moment later, perhaps together with `name`.
void HostLinks::drop(const std::string& name, const Error& why, bool silent) {
  const std::string host = name;  // NOLINT(performance-unnecessary-copy-initialization)
  if (own_pause_.is_recent()) silent = true;
  if (const auto at = links_.find(host); at != links_.end()) {
    std::unique_ptr<CourierLink> link = std::move(at->second);
    links_.erase(at);
    part(std::move(link));
  }
  if (host.empty()) forgive_silence();  // from now on beats of all are expected
  if (measured_ == host) {
    measured_.reset();
    measure_next();
  }
  options_.lost(host, why, silent);
}

void HostLinks::part(std::unique_ptr<CourierLink> link) {
  const bool from_coordinator = !leads() && link->connection->peer().host.empty();
  if (!from_coordinator) {
    link->connection->close();
    return loop_.drop_later(std::move(link));
  }
  link->parted = true;
  send_message(*link->connection, CourierMessage(LeavesCoordinator{}));
  parted_ = std::move(link);
  parted_end_ = loop_.once(kFarewell, [this] { parted_->connection->close(); });
}

void HostLinks::note_beat(const std::string& name) {
  if (const auto at = links_.find(name); at != links_.end()) at->second->beat = MonotonicClock::now();
}

std::vector<std::pair<std::string, net::Connection*>> HostLinks::to_beat() const {
  std::vector<std::pair<std::string, net::Connection*>> beaten;
  for (const auto& [name, link] : links_) {
    if (beats_go(name, *link)) beaten.emplace_back(name, link->connection.get());
  }
  return beaten;
}

// Behind a frame without room, beats of a host that has lost its coordinator may wait.
bool HostLinks::beats_go(const std::string& name, const CourierLink& link) const {
  const Nanoseconds since = link.waits             ? 0ns
                            : link.beat == kNoTime ? Nanoseconds::max()
                                                   : MonotonicClock::now() - link.beat;
  return sends_beats(leads(), has_coordinator(), name.empty(), since);
}

void HostLinks::try_quiet() {
  for (const auto& [name, link] : links_) {
    const bool is_quiet = !beats_go(name, *link) && link->connection->bytes_waiting() == 0;
    if (is_quiet) link->connection->send({bulk, 0, 0, 0}, "");
  }
}

void HostLinks::forgive_silence() {
  for (auto& [name, link] : links_) link->heard = MonotonicClock::now();
}

void HostLinks::look() {
  const MonotonicTime now = MonotonicClock::now();
  if (own_pause_.tick()) forgive_silence();  // silence during the pause does not count
  for (const auto& [name, link] : links_) {
    const bool expects = exchanges_beats(leads(), has_coordinator(), name.empty());
    if (!expects || link->waits || now - link->heard <= silence_limit) continue;
    return drop(name, Error::make(Fault::peer, "it has been silent for {:.1f} s", seconds(now - link->heard).count()),
                true);
  }
}

void HostLinks::retire() {
  alive_.reset();
  parted_end_.reset();
  if (parted_) parted_->connection->close();
  for (auto& [name, link] : links_) link->connection->close();
  links_.clear();
}

}  // namespace estrain::hosts
