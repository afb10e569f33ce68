#pragma once
// The control socket of a running job: RUN/control.sock, a Unix stream socket. A client sends one JSON object on a line
// and gets one JSON object on a line back; then the server hangs up.
//
//   {"do": "status"} | {"do": "resize", "devices": "cpu,cpu"} | …    (core/run/decisions/state/request.h)
//   -> {"ok": true, …} | {"ok": false, "fault": "usage", "error": "…", "advice": "…"}
//
// Only the user that the launcher runs as, and root, get in: the socket has mode 0600, and the server
// checks by SO_PEERCRED who connects. So clients are trusted not to attack, but not to be quick: the server never
// blocks, takes at most 64 KiB of a request, and hangs up on a client that takes longer than 10 s to ask, or to take
// the answer.
//
// The socket is reached through /proc/self/fd, so the length of the run directory's path does not matter.

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

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
  static constexpr int64_t kPatienceNs = INT64_C(10'000'000'000);

  // Binds RUN/control.sock, replacing a stale one (the run's lock is held). Throws Fault::io.
  explicit ControlServer(const std::string& run);
  // Takes up descriptors handed over by a re-exec: listener() and clients() of its predecessor.
  ControlServer(int listener, const std::map<ClientId, int>& clients);

  // To poll, at the monotonic time `now_ns`.
  std::vector<pollfd> polled(int64_t now_ns) const;
  // Takes the results of poll(2); calls `on_request` for each whole request, which may reply.
  void serve(std::span<const pollfd> polled, const OnRequest& on_request, int64_t now_ns);
  // The same for a server with requests of its own: each is any JSON object.
  void serve_objects(std::span<const pollfd> polled, const OnObject& on_object, int64_t now_ns);
  // Answers and hangs up; what the client does not take at once is sent as it does. No effect if the client is gone.
  void reply(ClientId client, const Json& answer);

  // Before the server goes: accepts who waits for that, and gives `why` to all that have not been answered, for at most
  // a second.
  void turn_away(const Error& why);

  int listener() const { return listener_.get(); }
  // Descriptors that a successor must take up: clients that wait for an answer under their own number, those that have
  // not begun to ask under its negative. An exec cuts off a client that is in the middle of asking or of its answer.
  std::map<ClientId, int> clients() const;
  size_t num_clients() const { return clients_.size(); }

 private:
  enum class Phase { asking, waiting, answered };
  struct Client {
    UniqueFd fd;
    Phase phase = Phase::asking;
    std::string text = {};    // of the request so far; what is left of the answer
    int64_t deadline_ns = 0;  // monotonic; of `asking` and `answered`
  };

  void add_client(ClientId id, UniqueFd fd, Phase phase);
  void accept_client(int64_t now_ns);
  void on_event(ClientId id, short events, const OnObject& on_object);
  void hear(ClientId id, const OnObject& on_object);
  void send_rest(ClientId id);

  UniqueFd listener_;
  std::map<ClientId, Client> clients_;
  ClientId next_id_ = 1;
  int64_t rests_until_ns_ = 0;  // no descriptor was free for another client
};

// Sends one request to the launcher of `run` and waits for its answer, at most `milliseconds` in all (-1: no limit).
// Throws Fault::usage if nothing runs there, Fault::io if its socket is another user's, Fault::peer if the launcher
// does not answer in time or hangs up; an answer with "ok": false is thrown as the Error it describes.
Json ask_launcher(const std::string& run, const decisions::Request& request, int milliseconds);
// The same for a server with requests of its own.
Json ask_server(const std::string& directory, const Json& request, int milliseconds);
// Whether a launcher listens there. It may be too busy to answer, or another user's.
bool launcher_answers(const std::string& run);
// How ask_launcher() reaches a launcher on another host that shares the directory: returns its answer, or throws
// Fault::peer where it is not reached. Set once, before anything is asked; without it nothing there is reached.
using AskElsewhere = std::function<Json(const std::string& run, const Json& request, int milliseconds)>;
void reach_elsewhere_by(AskElsewhere ask);
// Whether the launcher is on another host, agents of the run may pass a request on, and there is a way to reach them.
bool may_be_reached_elsewhere(const std::string& run);
// Connected, or throws as ask_launcher() does. Does not wait.
UniqueFd connect_to_launcher(const std::string& run);

Json error_answer(const Error& error);

// Whether a process of user `uid` may command a launcher that runs as `own`.
constexpr bool may_command(uint32_t uid, uint32_t own) { return uid == own || uid == 0; }

}  // namespace estrain::launch
