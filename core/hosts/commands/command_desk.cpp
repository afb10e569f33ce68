#include "core/hosts/commands/command_desk.h"

#include <utility>

#include "core/base/clock.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::hosts {
namespace {

constexpr int kBetweenGlancesMs = 10;
constexpr int64_t kSilentCoordinatorNs = 5'000'000'000;

}  // namespace

void CommandDesk::take_coordinator(net::ConnectionPtr connection) {
  const int64_t term = connection->peer().term;
  if (term < term_) return connection->close();
  if (coordinator_) lose_coordinator("it came anew");
  term_ = term;
  heard_ns_ = monotonic_ns();
  coordinator_ = std::make_unique<CoordinatorLink>(
      std::move(connection), [this](const BridgeMessage& said) { hear_coordinator(said); },
      [this](const Error& why) { lose_coordinator(why.message()); });
}

void CommandDesk::take_client(net::ConnectionPtr connection) {
  if (clients_.size() >= most_clients) return connection->close();
  const int64_t client = next_++;
  clients_[client] = std::make_unique<ClientLink>(
      std::move(connection),
      [this, client](const CommandQuestion& said) { hear_client(client, std::get<CommandRequest>(said)); },
      [this, client](const Error&) { lose_client(client); });
}

void CommandDesk::hear_client(int64_t client, const CommandRequest& asked) {
  const auto at = clients_.find(client);
  if (at == clients_.end() || asked_.contains(client)) return;
  if (!coordinator_) return at->second->send(NoCoordinator{"no coordinator has connected to this agent"});
  asked_.insert(client);
  coordinator_->send(ClientRequest{client, asked.request});
}

bool CommandDesk::has_coordinator() const {
  return coordinator_ != nullptr && monotonic_ns() - heard_ns_ < kSilentCoordinatorNs;
}

void CommandDesk::hear_coordinator(const BridgeMessage& said) {
  heard_ns_ = monotonic_ns();
  const auto* answered = std::get_if<ClientAnswer>(&said);
  if (answered == nullptr) return;
  const auto at = clients_.find(answered->client);
  if (at == clients_.end() || asked_.erase(answered->client) == 0) return;
  at->second->send(CommandAnswer{answered->answer});
}

void CommandDesk::lose_client(int64_t client) {
  const auto at = clients_.find(client);
  if (at == clients_.end()) return;
  loop_.drop_later(std::move(at->second));
  clients_.erase(at);
  if (asked_.erase(client) != 0 && coordinator_) coordinator_->send(ClientGone{client});
}

void CommandDesk::lose_coordinator(const std::string& why) {
  loop_.drop_later(std::move(coordinator_));
  const Error lost = Error::make(Fault::peer, "the coordinator is lost before its answer was here: {}", why)
                         .advise("whether it was done: see `estrain status` and events.jsonl of the run");
  for (const int64_t client : std::exchange(asked_, {}))
    clients_.at(client)->send(CommandAnswer{launch::error_answer(lost)});
}

void CommandDesk::when_answered(int64_t patience_ns, const std::function<void()>& done) {
  look_until(monotonic_ns() + patience_ns, done);
}

void CommandDesk::look_until(int64_t latest_ns, const std::function<void()>& done) {
  if (clients_.empty() || monotonic_ns() > latest_ns) return done();
  timer_ = loop_.once(kBetweenGlancesMs, [this, latest_ns, done] { look_until(latest_ns, done); });
}

}  // namespace estrain::hosts
