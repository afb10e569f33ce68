#pragma once
// The control socket of a running job: RUN/control.sock, a Unix stream socket. A client sends one JSON object
// on a line and gets one JSON object on a line back; then the server hangs up.
//
//   {"do": "status"} | {"do": "resize", "devices": "cpu,cpu"} | …    (core/run/decisions/state/request.h)
//   -> {"ok": true, …} | {"ok": false, "fault": "usage", "error": "…", "advice": "…"}
//
// Only the launcher's own user, and root, get in: the socket has mode 0600, and the server checks each client
// by SO_PEERCRED. A pool's socket may be open to the members of a group, too: the socket is the group's then, with mode
// 0660, and each client's user decides what the client may ask for. Clients are trusted not to attack, but not to be
// quick: the server never blocks, takes at most 64 KiB of a request, and hangs up on a client that takes longer than
// 10 s to ask, or to take the answer.
//
// The socket is reached through /proc/self/fd, so the length of the run directory's path does not matter.

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/files/unique_fd.h"
#include "core/base/json/json.h"
#include "core/run/decisions/state/request.h"

namespace estrain::launch {

using ClientId = int64_t;  // from 1

class ControlServer {
 public:
  using OnRequest = std::function<void(ClientId, const decisions::Request&)>;
  using OnObject = std::function<void(ClientId, const Json&)>;
  static constexpr size_t kMostClients = 64;  // more wait to be accepted
  static constexpr size_t kLongestRequest = 64 * 1024;
  static constexpr Nanoseconds kPatience = 10s;

  // Binds RUN/control.sock, replacing a stale socket (the run's lock is held). `group`: a group whose members get in,
  // too. Throws Fault::io.
  explicit ControlServer(const std::string& run, const std::optional<uint32_t>& group = std::nullopt);
  // Takes up descriptors handed over by a re-exec: listener() and clients() of the server before.
  ControlServer(int listener, const std::map<ClientId, int>& clients);

  // To poll, at the time `now`.
  std::vector<pollfd> polled(MonotonicTime now) const;
  // Takes the results of poll(2); calls `on_request`, which may reply, for each whole request.
  void serve(std::span<const pollfd> polled, const OnRequest& on_request, MonotonicTime now);
  // Does the same for a server with its own kinds of requests: each is any JSON object.
  void serve_objects(std::span<const pollfd> polled, const OnObject& on_object, MonotonicTime now);
  // Returns the user of a client that has asked and is not answered yet, as the kernel tells (SO_PEERCRED).
  uint32_t user(ClientId client) const;
  // Answers and hangs up; sends the rest later if the client is slow. No effect if the client has hung up.
  void reply(ClientId client, const Json& answer);

  // Ends the service: accepts the clients that wait, and gives `why` to each client without an answer, for at most a
  // second.
  void turn_away(const Error& why);

  int listener() const { return listener_.get(); }
  // Returns the descriptors for a successor: waiting clients by their own number, clients without a request yet by the
  // negative number. An exec cuts off a client in the middle of a request or an answer.
  std::map<ClientId, int> clients() const;
  size_t num_clients() const { return clients_.size(); }

 private:
  enum class ClientPhase { asking, waiting, answered };
  struct Client {
    UniqueFd fd;
    ClientPhase phase = ClientPhase::asking;
    std::string text = {};     // of the request so far; the rest of the answer
    MonotonicTime deadline{};  // of `asking` and `answered`
  };

  void add_client(ClientId id, UniqueFd fd, ClientPhase phase);
  void accept_client(MonotonicTime now);
  void on_event(ClientId id, short events, const OnObject& on_object);
  void hear(ClientId id, const OnObject& on_object);
  void send_rest(ClientId id);

  UniqueFd listener_;
  bool is_open_to_group_ = false;
  std::map<ClientId, Client> clients_;
  ClientId next_id_ = 1;
  MonotonicTime rests_until_{};  // no descriptor was free for another client
};

// Sends one request to the launcher of `run` and waits for its answer, at most `limit` in all (nothing: no limit).
// Throws Fault::usage if `run` has no launcher, Fault::io if its socket is another user's, Fault::peer if the launcher
// does not answer in time or hangs up. An answer with "ok": false is thrown as the described Error.
Json ask_launcher(const std::string& run, const decisions::Request& request, std::optional<Nanoseconds> limit);
// Does the same for a server with its own kinds of requests.
Json ask_server(const std::string& directory, const Json& request, std::optional<Nanoseconds> limit);
// Tells whether `run` has a listening launcher. The launcher may be too busy to answer, or another user's.
bool launcher_answers(const std::string& run);
// The way to ask a launcher on another host that shares the directory: returns its answer, or throws Fault::peer if the
// launcher is not reached. Set once before any request; without a way such launchers are not reached.
using AskElsewhere = std::function<Json(const std::string& run, const Json& request, std::optional<Nanoseconds> limit)>;
void reach_elsewhere_by(AskElsewhere ask);
// Tells whether the launcher is on another host, agents of the run may pass a request on, and a way to ask is set.
bool may_be_reached_elsewhere(const std::string& run);
// Connected, or throws as ask_launcher() does. Does not wait.
UniqueFd connect_to_launcher(const std::string& run);

Json error_answer(const Error& error);

// Tells whether a process of user `uid` may command a launcher of user `own`.
constexpr bool may_command(uint32_t uid, uint32_t own) { return uid == own || uid == 0; }

}  // namespace estrain::launch
