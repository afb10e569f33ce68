#include "core/run/launch/control/control_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/base/files/poll_set.h"
#include "core/base/files/run_files.h"
#include "core/base/json/json_text.h"
#include "core/run/launch/control/control_request.h"

namespace estrain::launch {
namespace {

constexpr int kBacklog = 64;
constexpr Nanoseconds kRest = 1s;
constexpr Nanoseconds kTurnAway = 1s;
constexpr auto kTurnAwayGlance = 10ms;
constexpr auto kNobody = static_cast<uint32_t>(-1);  // no user has this number

// The mode of a socket's file is the mode of the bound descriptor.
UniqueFd listen_in(const std::string& run, const std::optional<uint32_t>& group) {
  const UniqueFd folder = open_file(run, O_PATH | O_DIRECTORY);
  ::unlinkat(folder.get(), RunFiles::kControlSocket, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "/proc/self/fd/{}/{}", folder.get(),
                   RunFiles::kControlSocket);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::fchmod(fd.get(), 0600) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw system_error("cannot open the control socket in " + run, errno);
  const auto give_to = [&](uint32_t members) {
    const char* name = RunFiles::kControlSocket;
    return ::fchownat(folder.get(), name, static_cast<uid_t>(-1), members, AT_SYMLINK_NOFOLLOW) == 0 &&
           ::fchmodat(folder.get(), name, 0660, AT_SYMLINK_NOFOLLOW) == 0;
  };
  if (group && !give_to(*group))
    throw system_error(fmt::format("cannot give the control socket in {} to group {}", run, *group), errno);
  if (::listen(fd.get(), kBacklog) != 0) throw system_error("cannot open the control socket in " + run, errno);
  return fd;
}

// Returns the user at the other end; nobody's number if the kernel does not tell.
uint32_t user_at(const UniqueFd& fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.uid : kNobody;
}

}  // namespace

ControlServer::ControlServer(const std::string& run, const std::optional<uint32_t>& group)
    : listener_(listen_in(run, group)), is_open_to_group_(group.has_value()) {}

ControlServer::ControlServer(int listener, const std::map<ClientId, int>& clients) : listener_(listener) {
  for (const auto& [key, fd] : clients) {
    const ClientId id = std::abs(key);
    add_client(id, UniqueFd(fd), key < 0 ? ClientPhase::asking : ClientPhase::waiting);
    next_id_ = std::max(next_id_, id + 1);
  }
}

std::vector<pollfd> ControlServer::polled(MonotonicTime now) const {
  std::vector<pollfd> polled;
  if (clients_.size() < kMostClients && now >= rests_until_) polled.push_back({listener_.get(), POLLIN, 0});
  for (const auto& [id, client] : clients_) {
    const short events = client.phase == ClientPhase::asking     ? POLLIN
                         : client.phase == ClientPhase::answered ? POLLOUT
                                                                 : 0;
    polled.push_back({client.fd.get(), events, 0});
  }
  return polled;
}

std::map<ClientId, int> ControlServer::clients() const {
  std::map<ClientId, int> all;
  for (const auto& [id, client] : clients_) {
    if (client.phase == ClientPhase::waiting) all[id] = client.fd.get();
    if (client.phase == ClientPhase::asking && client.text.empty()) all[-id] = client.fd.get();
  }
  return all;
}

void ControlServer::turn_away(const Error& why) {
  const Json answer = error_answer(why);
  const auto refuse = [&](ClientId client, const Json&) { reply(client, answer); };
  for (MonotonicTime now = MonotonicClock::now(), end = now + kTurnAway; now < end; now = MonotonicClock::now()) {
    std::vector<ClientId> waiting;
    for (const auto& [id, client] : clients_)
      if (client.phase == ClientPhase::waiting) waiting.push_back(id);
    for (const ClientId id : waiting) reply(id, answer);
    std::vector<pollfd> all = polled(now);
    if (all.empty() || (poll_within(all, kTurnAwayGlance) <= 0 && clients_.empty())) return;
    serve_objects(all, refuse, now);
  }
}

void ControlServer::serve(std::span<const pollfd> polled, const OnRequest& on_request, MonotonicTime now) {
  const auto decode = [&](ClientId client, const Json& object) {
    std::optional<decisions::Request> request;
    try {
      request = decode_request(object);
    } catch (const Error& error) {
      return reply(client, error_answer(error));
    }
    on_request(client, *request);
  };
  serve_objects(polled, decode, now);
}

void ControlServer::serve_objects(std::span<const pollfd> polled, const OnObject& on_object, MonotonicTime now) {
  for (const pollfd& ready : polled) {
    if (ready.revents == 0) continue;
    if (ready.fd == listener_.get()) {
      accept_client(now);
      continue;
    }
    const auto at = std::ranges::find_if(clients_, [&](const auto& one) { return one.second.fd.get() == ready.fd; });
    if (at != clients_.end()) on_event(at->first, ready.revents, on_object);
  }
  std::erase_if(clients_, [now](const auto& one) {
    return one.second.phase != ClientPhase::waiting && one.second.deadline <= now;
  });
}

void ControlServer::add_client(ClientId id, UniqueFd fd, ClientPhase phase) {
  clients_.insert_or_assign(id,
                            Client{.fd = std::move(fd), .phase = phase, .deadline = MonotonicClock::now() + kPatience});
}

// Accepts a client. If no client can be accepted, the listener stays readable: the server ignores it for a second.
void ControlServer::accept_client(MonotonicTime now) {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) rests_until_ = now + kRest;
  if (!fd) return;
  const uint32_t user = user_at(fd);
  const bool is_member = is_open_to_group_ && user != kNobody;  // by the socket's mode
  if (is_member || may_command(user, ::geteuid())) add_client(next_id_++, std::move(fd), ClientPhase::asking);
}

uint32_t ControlServer::user(ClientId client) const { return user_at(clients_.at(client).fd); }

void ControlServer::on_event(ClientId id, short events, const OnObject& on_object) {
  const ClientPhase phase = clients_.at(id).phase;
  if (phase == ClientPhase::asking) return hear(id, on_object);
  if (phase == ClientPhase::answered) return send_rest(id);
  if ((events & (POLLHUP | POLLERR)) != 0) clients_.erase(id);
}

void ControlServer::hear(ClientId id, const OnObject& on_object) {
  Client& client = clients_.at(id);
  const size_t had = client.text.size();
  client.text.resize(kLongestRequest + 1);
  const ssize_t got = ::recv(client.fd.get(), client.text.data() + had, client.text.size() - had, MSG_DONTWAIT);
  client.text.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    clients_.erase(id);
    return;
  }
  const size_t end = client.text.find('\n');
  if (end == std::string::npos && client.text.size() <= kLongestRequest) return;
  client.phase = ClientPhase::waiting;
  Json request;
  try {
    if (end == std::string::npos) throw Error::make(Fault::usage, "a request of more than {} bytes", kLongestRequest);
    request = parse_request(std::string_view(client.text).substr(0, end));
  } catch (const Error& error) {
    return reply(id, error_answer(error));
  }
  on_object(id, request);
}

void ControlServer::reply(ClientId id, const Json& answer) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.phase == ClientPhase::answered) return;
  Client& client = found->second;
  client.text = json_text(answer) + "\n";
  client.phase = ClientPhase::answered;
  client.deadline = MonotonicClock::now() + kPatience;
  send_rest(id);
}

void ControlServer::send_rest(ClientId id) {
  Client& client = clients_.at(id);
  while (!client.text.empty()) {
    const ssize_t sent = ::send(client.fd.get(), client.text.data(), client.text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) break;
    client.text.erase(0, static_cast<size_t>(sent));
  }
  clients_.erase(id);
}

Json error_answer(const Error& error) {
  return {{"ok", false}, {"fault", fault_name(error.fault())}, {"error", error.message()}, {"advice", error.advice()}};
}

}  // namespace estrain::launch
