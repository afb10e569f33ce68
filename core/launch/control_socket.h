#pragma once
// The control socket of a running job: RUN/control.sock, a Unix stream socket. A client sends one JSON object on a line
// and gets one JSON object on a line back; then the server hangs up.
//
//   {"do": "status"} | {"do": "resize", "devices": "cpu,cpu"} | {"do": "stop"}
//   -> {"ok": true, …} | {"ok": false, "fault": "usage", "error": "…", "advice": "…"}
//
// Who gets in: the user that the launcher runs as, and root. The socket has mode 0600, and whoever connects is checked
// by SO_PEERCRED, so a mode that was changed afterwards lets nobody else in.
//
// The server never blocks and never waits: whatever clients do, a call of serve() is bounded work. What a client has
// sent stays in the kernel until its request is whole, so half a request costs no memory and survives a re-exec of the
// launcher. ControlLimits says when a client is sent away; it is told why in an answer with "ok": false.
//
// The socket is reached through /proc/self/fd, so the length of the run directory's path does not matter.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/unique_fd.h"

namespace estrain::launch {

using ClientId = int64_t;  // from 1

struct ControlLimits {
  size_t request_bytes = 64 * 1024;  // of one request
  // At a time. One more takes the place of the client that has been silent longest; if all have asked and wait for
  // their answer, it is refused.
  size_t clients = 64;
  int request_ms =
      10'000;  // from connecting until the request is whole; after that a client may wait as long as it likes
  int answer_ms = 10'000;  // from the answer until the client has taken all of it
};

class ControlServer {
 public:
  using OnRequest = std::function<void(ClientId, const Json&)>;

  // Binds RUN/control.sock, replacing a stale one (the run's lock is held). Throws Fault::io.
  explicit ControlServer(const std::string& run, const ControlLimits& limits = {});
  // Takes up descriptors handed over by a re-exec: listener() and clients() of its predecessor.
  ControlServer(int listener, const std::map<ClientId, int>& clients, const ControlLimits& limits = {});

  // To poll for reading: one, readable when there is anything to do, be it that a client's time is over.
  std::vector<int> descriptors() const;
  // Does what is to be done, if `descriptor` is that one; calls `on_request` for each whole request, which may reply.
  void serve(int descriptor, const OnRequest& on_request);
  // Answers and hangs up; what the client does not take at once is sent as it does. No effect if the client is gone.
  void reply(ClientId client, const Json& answer);

  int listener() const { return listener_.get(); }
  // Descriptors of all that a successor must take up: clients that wait for an answer under their own number, those
  // that have not asked yet under its negative. A client that is still taking its answer is not among them: an exec
  // cuts it off. (That takes an answer larger than the socket's buffer, some 200 KB.)
  std::map<ClientId, int> clients() const;
  size_t num_clients() const { return clients_.size(); }

 private:
  enum class Stage { asking, waiting, answered };
  struct Client {
    UniqueFd fd;
    Stage stage = Stage::asking;
    int64_t deadline_ns = 0;  // monotonic; of `asking` and `answered`
    std::string unsent;       // of the answer
  };

  void open_events();
  bool watch(int fd, uint32_t events, int64_t key);
  void add_client(ClientId id, UniqueFd fd, Stage stage);
  void accept_clients();
  bool make_room();
  void stop_listening_for_now();
  void on_client_event(ClientId id, uint32_t events, const OnRequest& on_request);
  void read_request(ClientId id, bool ended, const OnRequest& on_request);
  std::optional<Json> take_request(ClientId id, bool ended);
  void send_unsent(ClientId id);
  void refuse(ClientId id, const Error& error);
  void hang_up(ClientId id);
  void drop_late_clients();
  void set_alarm();

  ControlLimits limits_;
  UniqueFd listener_;
  UniqueFd events_;  // epoll: listener, alarm, clients
  UniqueFd alarm_;   // timerfd
  std::map<ClientId, Client> clients_;
  ClientId next_id_ = 1;
  int64_t listens_again_ns_ = 0;  // no descriptor was free for another client; 0: listening
};

// Sends one request to the launcher of `run` and waits for its answer, at most `milliseconds` in all (-1: no limit).
// Throws Fault::usage if nothing runs there, Fault::io if its socket is another user's, Fault::peer if the launcher
// does not answer in time or hangs up; an answer with "ok": false is thrown as the Error it describes.
Json ask_launcher(const std::string& run, const Json& request, int milliseconds);
// Whether a launcher listens there, be it that it is too busy to answer, or another user's.
bool launcher_answers(const std::string& run);

Json error_answer(const Error& error);

// Whether a process of user `uid` may command a launcher that runs as `own`.
constexpr bool may_command(uint32_t uid, uint32_t own) { return uid == own || uid == 0; }

}  // namespace estrain::launch
