#include "core/hosts/joining/registration.h"

#include <utility>

#include "core/base/clock.h"
#include "core/hosts/agents/own_greeting.h"

namespace estrain::hosts {
namespace {

constexpr int kBetweenJoinsMs = 500, kBetweenSignsMs = 1000;
constexpr int64_t kSilentRegistryNs = 5'000'000'000;  // a launcher's host that stands still keeps its connections

}  // namespace

Registration::Registration(net::Loop& loop, const net::Key& key, Options options)
    : loop_(loop), key_(key), options_(std::move(options)), attended_ns_(monotonic_ns()) {
  timer_ = loop.every(kBetweenJoinsMs, [this] { look(); });
  beats_ = loop.every(kBetweenSignsMs, [this] {
    if (link_) link_->send(StillHere{});
  });
  try_to_connect();
}

void Registration::look() {
  if (link_ && monotonic_ns() - heard_ns_ > kSilentRegistryNs) lose(Error(Fault::peer, "it is silent"));
  if (!link_ && !reaching_ && !over_) try_to_connect();
}

bool Registration::is_given_up(bool belongs, int64_t patience_ns) {
  const int64_t now = monotonic_ns();
  if (joined_ || belongs) attended_ns_ = now;
  return now - attended_ns_ > patience_ns;
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
  heard_ns_ = monotonic_ns();
  link_ = std::make_unique<MessageLink<GuestMessage, RegistryMessage>>(
      std::move(connection), [this](const RegistryMessage& said) { hear(said); },
      [this](const Error& why) { lose(why); });
  link_->send(Joins{options_.address});
}

void Registration::hear(const RegistryMessage& said) {
  if (!link_) return;  // lost meanwhile
  heard_ns_ = monotonic_ns();
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
