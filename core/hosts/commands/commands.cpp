#include "core/hosts/commands/commands.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "core/base/clock.h"
#include "core/base/json/json_text.h"
#include "core/hosts/agents/host_file.h"
#include "core/hosts/agents/own_greeting.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kBetweenGlances = 10ms;  // of the desk, at the clients left
constexpr Nanoseconds kSilentCoordinator = 5s;
constexpr Nanoseconds kBetweenLooks = 1s;  // of the bridge, for agents

Error hung_up() { return Error(Fault::peer, "the launcher hung up without an answer"); }

}  // namespace

void CommandDesk::take_coordinator(net::ConnectionPtr connection) {
  const int64_t term = connection->peer().term;
  if (term < term_) return connection->close();
  if (coordinator_) lose_coordinator("it came anew");
  term_ = term;
  heard_ = MonotonicClock::now();
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
  return coordinator_ != nullptr && MonotonicClock::now() - heard_ < kSilentCoordinator;
}

void CommandDesk::hear_coordinator(const BridgeMessage& said) {
  heard_ = MonotonicClock::now();
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

void CommandDesk::when_answered(Nanoseconds patience, const std::function<void()>& done) {
  look_until(MonotonicClock::now() + patience, done);
}

void CommandDesk::look_until(MonotonicTime latest, const std::function<void()>& done) {
  if (clients_.empty() || MonotonicClock::now() > latest) return done();
  timer_ = loop_.once(kBetweenGlances, [this, latest, done] { look_until(latest, done); });
}

CommandBridge::CommandBridge(net::Loop& loop, const net::SharedKey& key, std::string run, int64_t term)
    : loop_(loop), key_(key), run_(std::move(run)), term_(term) {
  timer_ = loop.every(kBetweenLooks, [this] { look_for_agents(); });
}

// A message once a second notices a lost host. An agent that starts again has lost the old connection first.
void CommandBridge::look_for_agents() {
  for (const std::string& name : names_of_host_files(run_)) reach(name);
  for (auto& [name, agent] : agents_) {
    if (agent.link) agent.link->send(BridgeStands{});
  }
}

void CommandBridge::reach(const std::string& name) {
  Agent& agent = agents_[name];
  if (agent.reaching || agent.link) return;
  try {
    const std::string address = read_host_file(run_, name).address;
    const net::OutgoingCall call = {.to = net::parse_address(address),
                                    .host = name,
                                    .from = from_,
                                    .own = own_greeting(name_of_run(run_), "", "commands", term_)};
    agent.reaching = true;
    net::connect(loop_, key_, call, [this, name](net::ConnectionPtr connection, const Error* why) {
      agents_[name].reaching = false;
      if (why == nullptr) take(name, std::move(connection));
    });
  } catch (const Error&) {  // the file is gone since, or holds no address: the next round tries again
    agent.reaching = false;
  }
}

void CommandBridge::take(const std::string& name, net::ConnectionPtr connection) {
  agents_[name].link = std::make_unique<MessageLink<BridgeMessage, DeskMessage>>(
      std::move(connection),
      [this, name](const DeskMessage& said) { std::visit([&](const auto& one) { hear(name, one); }, said); },
      [this, name](const Error&) { lose(name); });
}

void CommandBridge::lose(const std::string& name) {
  Agent& agent = agents_[name];
  agent.calls.clear();
  loop_.drop_later(std::move(agent.link));
}

void CommandBridge::hear(const std::string& name, const ClientGone& gone) { agents_[name].calls.erase(gone.client); }

void CommandBridge::hear(const std::string& name, const ClientRequest& asked) {
  if (agents_[name].calls.size() >= launch::ControlServer::kMostClients) return;
  const int64_t client = asked.client;
  try {
    const std::string line = json_text(asked.request) + "\n";
    if (line.size() > launch::ControlServer::kLongestRequest)
      throw Error::make(Fault::usage, "a request of more than {} bytes", launch::ControlServer::kLongestRequest);
    UniqueFd socket = launch::connect_to_launcher(run_);
    if (::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) throw hung_up();
    const int fd = socket.get();
    agents_[name].calls[client] = {std::move(socket),
                                   loop_.watch(fd, [this, name, client] { on_answer(name, client); })};
  } catch (const Error& error) {
    reply(name, client, launch::error_answer(error));
  }
}

void CommandBridge::on_answer(const std::string& name, int64_t client) {
  std::map<int64_t, BridgedRequest>& calls = agents_[name].calls;
  const auto at = calls.find(client);
  if (at == calls.end()) return;
  std::array<char, 4096> buffer;
  const ssize_t got = ::recv(at->second.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) at->second.text.append(buffer.data(), static_cast<size_t>(got));
  const bool whole = got > 0 && at->second.text.back() == '\n';
  if (got > 0 && !whole) return;
  const Json answer = whole ? parse_json_if_sound(at->second.text) : Json();
  loop_.drop_later(std::move(at->second));
  calls.erase(at);
  reply(name, client, answer.is_object() ? answer : launch::error_answer(hung_up()));
}

void CommandBridge::reply(const std::string& name, int64_t client, const Json& answer) {
  const auto& link = agents_[name].link;
  if (link == nullptr) return;
  try {
    link->send(ClientAnswer{client, answer});
  } catch (const Error& error) {  // too long
    link->send(ClientAnswer{client, launch::error_answer(error.within("the launcher's answer"))});
  }
}

}  // namespace estrain::hosts
