#include "core/launch/control_socket.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/base/json_text.h"
#include "core/launch/control_request.h"

namespace estrain::launch {
namespace {

constexpr int64_t kListenerKey = 0, kAlarmKey = -1;  // clients' keys are their numbers
constexpr int kAcceptedAtOnce = 16;  // fewer than the clients that there is room for: none is sent away unheard
constexpr int kBacklog = 64;
constexpr int64_t kPauseWithoutDescriptorsNs = 1'000'000'000;
constexpr int kMostDiscards = 64;  // reads: more than a socket holds

int64_t after_ms(int milliseconds) { return monotonic_ns() + milliseconds * INT64_C(1'000'000); }

// The socket's address by way of the open folder: short, whatever the folder's path.
sockaddr_un address_in(const UniqueFd& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "/proc/self/fd/{}/control.sock", folder.get());
  return address;
}

// The mode of a socket's file is that of the descriptor that is bound to it.
UniqueFd listen_in(const std::string& run) {
  const UniqueFd folder = open_file(run, O_PATH | O_DIRECTORY);
  ::unlinkat(folder.get(), "control.sock", 0);
  const sockaddr_un address = address_in(folder);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::fchmod(fd.get(), 0600) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), kBacklog) != 0)
    throw system_error("cannot open the control socket in " + run, errno);
  return fd;
}

bool lets_in(const UniqueFd& fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && may_command(peer.uid, ::geteuid());
}

std::string line_of(const Json& answer) { return json_text(answer) + "\n"; }

Error full(size_t clients) {
  return Error::make(Fault::peer, "{} clients are connected to the launcher already", clients)
      .advise("try again in a moment");
}

// Takes what has been sent so far out of the socket, at most `bytes`.
void discard(int fd, size_t bytes) {
  std::array<char, 8192> buffer;
  for (int reads = 0; reads < kMostDiscards && bytes > 0; ++reads) {
    const ssize_t got = ::recv(fd, buffer.data(), std::min(bytes, buffer.size()), MSG_DONTWAIT);
    if (got <= 0) return;
    bytes -= static_cast<size_t>(got);
  }
}

}  // namespace

ControlServer::ControlServer(const std::string& run, const ControlLimits& limits)
    : limits_(limits), listener_(listen_in(run)) {
  open_events();
}

ControlServer::ControlServer(int listener, const std::map<ClientId, int>& clients, const ControlLimits& limits)
    : limits_(limits), listener_(listener) {
  open_events();
  for (const auto& [key, fd] : clients) {
    const ClientId id = std::abs(key);
    add_client(id, UniqueFd(fd), key < 0 ? Stage::asking : Stage::waiting);
    next_id_ = std::max(next_id_, id + 1);
  }
  set_alarm();
}

void ControlServer::open_events() {
  events_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  alarm_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!events_ || !alarm_) throw system_error("cannot watch the control socket", errno);
  if (!watch(listener_.get(), EPOLLIN, kListenerKey) || !watch(alarm_.get(), EPOLLIN, kAlarmKey))
    throw system_error("cannot watch the control socket", errno);
}

bool ControlServer::watch(int fd, uint32_t events, int64_t key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<uint64_t>(key);
  return ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

std::vector<int> ControlServer::descriptors() const { return {events_.get()}; }

std::map<ClientId, int> ControlServer::clients() const {
  std::map<ClientId, int> all;
  for (const auto& [id, client] : clients_) {
    if (client.stage != Stage::answered) all[client.stage == Stage::waiting ? id : -id] = client.fd.get();
  }
  return all;
}

// A client is watched for changes, not for a state: one that sends and sends without an end of line wakes nobody once
// its socket is full.
void ControlServer::add_client(ClientId id, UniqueFd fd, Stage stage) {
  if (!watch(fd.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, id)) return;
  Client& client = clients_[id];
  client.fd = std::move(fd);
  client.stage = stage;
  client.deadline_ns = after_ms(limits_.request_ms);
}

void ControlServer::accept_clients() {
  for (int accepted = 0; accepted < kAcceptedAtOnce; ++accepted) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
      return stop_listening_for_now();
    if (!fd) return;
    if (!lets_in(fd)) continue;
    if (clients_.size() < limits_.clients || make_room()) {
      add_client(next_id_++, std::move(fd), Stage::asking);
    } else {
      const std::string line = line_of(error_answer(full(clients_.size())));
      ::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
}

// Sends away whoever has been connected longest without asking for anything.
bool ControlServer::make_room() {
  const auto silent =
      std::ranges::find_if(clients_, [](const auto& entry) { return entry.second.stage == Stage::asking; });
  if (silent == clients_.end()) return false;
  const ClientId id = silent->first;
  refuse(id, full(clients_.size()));
  clients_.erase(id);  // whether or not it took the answer
  return true;
}

// Nothing can be accepted, and the listener would stay readable: it is left alone for a second.
void ControlServer::stop_listening_for_now() {
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  listens_again_ns_ = monotonic_ns() + kPauseWithoutDescriptorsNs;
}

void ControlServer::serve(int descriptor, const OnRequest& on_request) {
  if (descriptor != events_.get()) return;
  std::vector<epoll_event> ready(limits_.clients + 2);
  const int count = ::epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  ready.resize(static_cast<size_t>(std::max(count, 0)));
  bool knocking = false;
  for (const epoll_event& event : ready) {
    const int64_t key = static_cast<int64_t>(event.data.u64);
    knocking = knocking || key == kListenerKey;
    if (key > 0) on_client_event(key, event.events, on_request);
  }
  drop_late_clients();
  if (knocking) accept_clients();  // last, so that whoever must make room has been heard
  set_alarm();
}

void ControlServer::on_client_event(ClientId id, uint32_t events, const OnRequest& on_request) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  const Stage stage = found->second.stage;
  if (stage == Stage::answered) send_unsent(id);
  if (stage == Stage::asking && (events & EPOLLIN) != 0) read_request(id, (events & EPOLLRDHUP) != 0, on_request);
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) clients_.erase(id);
}

void ControlServer::read_request(ClientId id, bool ended, const OnRequest& on_request) {
  std::optional<Json> request;
  try {
    request = take_request(id, ended);
  } catch (const Error& error) {
    return refuse(id, error);
  }
  if (request) on_request(id, *request);
}

// Looks at what the client has sent so far; takes it out of the socket once a whole line is there. Throws Fault::usage
// for what can become no request. `ended`: the client will send no more.
std::optional<Json> ControlServer::take_request(ClientId id, bool ended) {
  Client& client = clients_.at(id);
  std::string text(limits_.request_bytes + 1, '\0');
  const ssize_t got = ::recv(client.fd.get(), text.data(), text.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got <= 0) {
    clients_.erase(id);
    return std::nullopt;
  }
  text.resize(static_cast<size_t>(got));
  const size_t end = text.find('\n');
  if (end == std::string::npos) {
    if (text.size() > limits_.request_bytes)
      throw Error::make(Fault::usage, "a request of more than {} bytes", limits_.request_bytes);
    if (ended) throw Error(Fault::usage, "a request that ends before its line does");
    return std::nullopt;
  }
  Json request = parse_request(std::string_view(text).substr(0, end));
  discard(client.fd.get(), end + 1);
  client.stage = Stage::waiting;
  return request;
}

void ControlServer::refuse(ClientId id, const Error& error) { reply(id, error_answer(error)); }

void ControlServer::reply(ClientId id, const Json& answer) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.stage == Stage::answered) return;
  found->second.unsent = line_of(answer);
  found->second.stage = Stage::answered;
  found->second.deadline_ns = after_ms(limits_.answer_ms);
  send_unsent(id);
  set_alarm();
}

void ControlServer::send_unsent(ClientId id) {
  Client& client = clients_.at(id);
  while (!client.unsent.empty()) {
    const ssize_t sent =
        ::send(client.fd.get(), client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) break;
    client.unsent.erase(0, static_cast<size_t>(sent));
  }
  hang_up(id);
}

// Closing a socket in which something is left unread would reach the client as a broken connection.
void ControlServer::hang_up(ClientId id) {
  discard(clients_.at(id).fd.get(), SIZE_MAX);
  clients_.erase(id);
}

void ControlServer::drop_late_clients() {
  const int64_t now = monotonic_ns();
  std::vector<ClientId> silent;
  for (const auto& [id, client] : clients_) {
    if (client.stage == Stage::asking && client.deadline_ns <= now) silent.push_back(id);
  }
  for (const ClientId id : silent)
    refuse(id, Error::make(Fault::usage, "no request within {} s", limits_.request_ms / 1000.0));
  std::erase_if(clients_, [now](const auto& entry) {
    return entry.second.stage == Stage::answered && entry.second.deadline_ns <= now;
  });
  if (listens_again_ns_ > 0 && listens_again_ns_ <= now) {
    const bool again = watch(listener_.get(), EPOLLIN, kListenerKey);
    listens_again_ns_ = again ? 0 : now + kPauseWithoutDescriptorsNs;
  }
}

// Makes descriptors() readable when the next deadline has come. Setting a timer also makes it unreadable until then.
void ControlServer::set_alarm() {
  int64_t next = listens_again_ns_ > 0 ? listens_again_ns_ : INT64_MAX;
  for (const auto& [id, client] : clients_) {
    if (client.stage != Stage::waiting) next = std::min(next, client.deadline_ns);
  }
  itimerspec at{};  // zero: never
  if (next < INT64_MAX) at.it_value = {next / 1'000'000'000, next % 1'000'000'000};
  ::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

Json error_answer(const Error& error) {
  return {{"ok", false}, {"fault", fault_name(error.fault())}, {"error", error.message()}, {"advice", error.advice()}};
}

}  // namespace estrain::launch
