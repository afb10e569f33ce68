#pragma once
// A control socket, served as by a launcher, and clients that may misbehave.

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/files/poll_set.h"
#include "core/run/launch/control/control_request.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::launch {

// More than any busy machine needs: anything slower hangs.
inline constexpr std::chrono::milliseconds kHangsFor = 300s;
inline constexpr double kHangs = Seconds(kHangsFor).count();

// One round of the launcher's; `later` from now.
inline void serve_once(ControlServer& server, const ControlServer::OnRequest& on_request, Nanoseconds later = 0ns) {
  const MonotonicTime now = MonotonicClock::now() + later;
  std::vector<pollfd> polled = server.polled(now);
  ::poll(polled.data(), polled.size(), 5);
  server.serve(polled, on_request, now);
}

// Polls and serves like the launcher, in a thread of its own, until the object is destroyed.
class Serving {
 public:
  using Handler = std::function<void(ControlServer&, ClientId, const decisions::Request&)>;
  Serving(const std::string& run, Handler handler, const std::optional<uint32_t>& group = std::nullopt)
      : server_(run, group), handler_(std::move(handler)) {
    thread_ = std::thread([this] {
      while (!over_.load()) round();
    });
  }
  ~Serving() {
    over_.store(true);
    thread_.join();
  }
  size_t clients() const { return num_clients_.load(); }

 private:
  void round() {
    serve_once(server_,
               [&](ClientId client, const decisions::Request& request) { handler_(server_, client, request); });
    num_clients_.store(server_.num_clients());
  }

  ControlServer server_;
  Handler handler_;
  std::atomic<bool> over_{false};
  std::atomic<size_t> num_clients_{0};
  std::thread thread_;
};

inline void answer_with_echo(ControlServer& server, ClientId client, const decisions::Request& request) {
  server.reply(client, {{"ok", true}, {"heard", encode_request(request)}});
}

// Serves until a request arrives, and leaves the request unanswered.
inline ClientId wait_for_request(ControlServer& server) {
  for (ClientId asking = 0;;) {
    serve_once(server, [&](ClientId client, const decisions::Request&) { asking = client; });
    if (asking != 0) return asking;
  }
}

// A client that may misbehave: a plain connection.
inline UniqueFd connect_plainly(const std::string& run) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (run + "/control.sock").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

inline bool is_hung_up(const UniqueFd& fd) {
  pollfd waiting{fd.get(), POLLIN | POLLRDHUP, 0};
  return ::poll(&waiting, 1, 0) == 1;
}

// Returns everything the server sends until the connection is closed; "still connected" if the server keeps it open.
inline std::string last_words(const UniqueFd& fd, std::chrono::milliseconds limit = kHangsFor) {
  std::string text;
  for (char buffer[4096];;) {
    pollfd waiting{fd.get(), POLLIN, 0};
    if (poll_within({&waiting, 1}, limit) == 0) return "still connected";
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

// The answer to a refused client.
inline std::string refusal(const UniqueFd& fd) {
  const std::string text = last_words(fd);
  INFO("the server said: ", text);
  const Json answer = Json::parse(text, nullptr, false);
  REQUIRE(answer.is_object());
  CHECK(answer.at("ok") == false);
  return answer.at("error");
}

inline void send_all(const UniqueFd& fd, std::string_view text) {
  REQUIRE(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

template <typename Holds>
inline void wait_until(Holds&& holds) {
  for (auto waited = 0ms; waited < kHangsFor && !holds(); waited += 5ms) std::this_thread::sleep_for(5ms);
  REQUIRE(holds());
}

inline bool gives_status(const std::string& run) {
  return ask_launcher(run, decisions::StatusRequest{}, kHangsFor).at("ok") == true;
}

}  // namespace estrain::launch
