// The control protocol: clients' requests to a launcher, whole and in parts, to the server and to the handler behind
// it.
//
// The first byte determines the number of parts in which the rest is sent, and whether the client then closes its half.
// The client must receive exactly one line, a JSON object, for a whole line; else the server waits for the rest, or
// drops a client that sends no more.
#include <sys/socket.h>

#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/run/launch/control/control_socket.h"
#include "core/run/launch/preflight/devices.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {
namespace {

using launch::ClientId;
using launch::ControlServer;

// A launcher's treatment of a request (core/run/launch/launcher/launcher.cpp), without a job behind it.
Json carry_out(const decisions::Request& request) {
  try {
    const auto* resize = std::get_if<decisions::ResizeRequest>(&request);
    if (resize == nullptr) return {{"ok", true}, {"step", 7}};
    const auto devices = launch::parse_devices(resize->devices);
    launch::check_devices(devices_of(devices), {});
    placement::place_ests(devices, 8);
    return {{"ok", true}, {"devices", placement::format_devices(devices)}};
  } catch (const Error& error) {
    return launch::error_answer(error);
  }
}

// A server with one client, without a file system: as after a re-exec.
class OneClient {
 public:
  OneClient() {
    int ends[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "a pair of sockets");
    ours_ = UniqueFd(ends[0]);
    server_.emplace(::dup(listener()), std::map<ClientId, int>{{-1, ends[1]}});
  }

  void send(std::string_view part) {
    while (!part.empty()) {
      const ssize_t sent = ::send(ours_.get(), part.data(), part.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the connection is closed, or the socket is full
      part.remove_prefix(static_cast<size_t>(sent));
      serve();
    }
  }
  void close_half() {
    ::shutdown(ours_.get(), SHUT_WR);
    serve();
  }
  bool is_served() const { return server_->num_clients() == 0; }
  std::string answer() const {
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = ::recv(ours_.get(), buffer, sizeof buffer, 0)) > 0;)
      text.append(buffer, static_cast<size_t>(got));
    return text;
  }

 private:
  static int listener() {
    static const Folder folder;
    static const ControlServer server(folder.path());
    return server.listener();
  }
  void serve() {
    const MonotonicTime now = MonotonicClock::now();
    std::vector<pollfd> polled = server_->polled(now);
    ::poll(polled.data(), polled.size(), 0);
    server_->serve(
        polled,
        [this](ClientId client, const decisions::Request& request) { server_->reply(client, carry_out(request)); },
        now);
  }

  UniqueFd ours_;
  std::optional<ControlServer> server_;
};

void talk(uint8_t mode, std::string_view text) {
  OneClient client;
  const size_t parts = 1 + mode % 8;
  const size_t length = text.size() / parts + 1;
  for (size_t at = 0; at < text.size(); at += length) client.send(text.substr(at, length));
  const bool whole = text.find('\n') != text.npos;
  if (whole) require(client.is_served(), "a whole line is answered");
  if ((mode & 0x80) != 0) {
    client.close_half();
    require(client.is_served(), "a client that sends no more is answered, or dropped if it never asked");
  }
  const std::string answer = client.answer();
  if (!whole) return;  // nothing was asked
  require(answer.find('\n') == answer.size() - 1, "an answer is one line");
  const Json json = Json::parse(answer, nullptr, false);
  require(json.is_object() && json.contains("ok"), "an answer is an object that says whether it is ok");
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) estrain::fuzz::talk(data[0], estrain::fuzz::text_of(data + 1, size - 1));
  return 0;
}
