#include "core/launch/control_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/files.h"

namespace estrain::launch {
namespace {

constexpr size_t kLargestRequest = 64 * 1024;
constexpr size_t kMostClients = 64;

// The socket's address by way of the open folder: short, whatever the folder's path.
sockaddr_un short_address(const UniqueFd& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "/proc/self/fd/{}/control.sock", folder.get());
  return address;
}

UniqueFd new_socket(int flags) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!fd) throw system_error("cannot create a socket", errno);
  return fd;
}

bool same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == ::geteuid() || peer.uid == 0);
}

Fault fault_from_name(std::string_view name) {
  for (int value = 0; value <= static_cast<int>(Fault::bug); ++value) {
    if (fault_name(static_cast<Fault>(value)) == name) return static_cast<Fault>(value);
  }
  return Fault::peer;
}

// Connects; an empty descriptor if nobody listens there.
UniqueFd connect_to(const std::string& run) {
  UniqueFd folder(::open(run.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return UniqueFd();
  const sockaddr_un address = short_address(folder);
  UniqueFd fd = new_socket(0);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return UniqueFd();
  return fd;
}

std::string read_line(int fd, int milliseconds, const std::string& run) {
  std::string line;
  std::array<char, 4096> buffer;
  for (;;) {
    pollfd waiting{fd, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, milliseconds);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0)
      throw Error::make(Fault::peer, "{}: the launcher did not answer in {} s", run, milliseconds / 1000.0);
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got <= 0)
      throw Error::make(Fault::peer, "{}: the launcher hung up without an answer", run)
          .advise("see " + run + "/events.jsonl");
    line.append(buffer.data(), static_cast<size_t>(got));
    if (line.back() == '\n') return line;
  }
}

}  // namespace

ControlServer::ControlServer(const std::string& run) {
  const UniqueFd folder = open_file(run, O_PATH | O_DIRECTORY);
  ::unlinkat(folder.get(), "control.sock", 0);
  const sockaddr_un address = short_address(folder);
  listener_ = new_socket(SOCK_NONBLOCK);
  const mode_t before = ::umask(0177);
  const int bound = ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int failure = errno;
  ::umask(before);
  if (bound != 0 || ::listen(listener_.get(), 16) != 0)
    throw system_error("cannot open the control socket in " + run, failure);
}

ControlServer::ControlServer(int listener, const std::map<ClientId, int>& clients) : listener_(listener) {
  for (const auto& [id, fd] : clients) {
    clients_[id].fd = UniqueFd(fd);
    next_id_ = std::max(next_id_, id + 1);
  }
}

std::vector<int> ControlServer::descriptors() const {
  std::vector<int> all = {listener_.get()};
  for (const auto& [id, client] : clients_) all.push_back(client.fd.get());
  return all;
}

std::map<ClientId, int> ControlServer::clients() const {
  std::map<ClientId, int> all;
  for (const auto& [id, client] : clients_) all[id] = client.fd.get();
  return all;
}

void ControlServer::accept_clients() {
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    if (same_user(fd.get()) && clients_.size() < kMostClients) clients_[next_id_++].fd = std::move(fd);
  }
}

// False: drop the client. `complete`: a whole request was read.
bool ControlServer::read_client(Client& client, Json* request, bool* complete) {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(client.fd.get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  client.received.append(buffer.data(), static_cast<size_t>(got));
  if (client.received.size() > kLargestRequest) return false;
  const size_t end = client.received.find('\n');
  if (end == std::string::npos) return true;
  *request = Json::parse(client.received.substr(0, end), nullptr, false);
  client.received.clear();
  *complete = request->is_object();
  return *complete;
}

void ControlServer::serve(int descriptor, const std::function<void(ClientId, const Json&)>& on_request) {
  if (descriptor == listener_.get()) return accept_clients();
  for (auto& [id, client] : clients_) {
    if (client.fd.get() != descriptor) continue;
    Json request;
    bool complete = false;
    const ClientId who = id;
    if (!read_client(client, &request, &complete)) {
      clients_.erase(who);
    } else if (complete) {
      on_request(who, request);
    }
    return;
  }
}

void ControlServer::reply(ClientId client, const Json& answer) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  const std::string line = answer.dump() + "\n";
  ::send(found->second.fd.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  clients_.erase(found);
}

Json error_answer(const Error& error) {
  return {{"ok", false}, {"fault", fault_name(error.fault())}, {"error", error.message()}, {"advice", error.advice()}};
}

bool launcher_answers(const std::string& run) { return static_cast<bool>(connect_to(run)); }

Json ask_launcher(const std::string& run, const Json& request, int milliseconds) {
  const UniqueFd fd = connect_to(run);
  if (!fd) {
    throw Error::make(Fault::usage, "{}: no job is running there", run)
        .advise("`estrain status` lists the runs in ./runs; give the directory that `estrain train` printed");
  }
  const std::string line = request.dump() + "\n";
  if (::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0)
    throw system_error("cannot reach the launcher of " + run, errno);
  Json answer = parse_json(read_line(fd.get(), milliseconds, run), "answer of the launcher");
  if (!answer.value("ok", false)) {
    throw Error(fault_from_name(answer.value("fault", "peer")), answer.value("error", "refused"))
        .advise(answer.value("advice", ""));
  }
  return answer;
}

}  // namespace estrain::launch
