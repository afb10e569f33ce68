#pragma once
// The control socket of a running job: RUN/control.sock, a Unix stream socket of mode 0600. A client sends one JSON
// object on a line and gets one JSON object on a line back.
//
//   {"do": "status"} | {"do": "resize", "devices": "cpu,cpu"} | {"do": "stop"}
//   -> {"ok": true, …} | {"ok": false, "fault": "usage", "error": "…", "advice": "…"}
//
// The server never blocks: a client that is slow, silent or sends more than 64 KiB is dropped, training goes on.
// The socket is reached through /proc/self/fd, so the length of the run directory's path does not matter.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/unique_fd.h"

namespace estrain::launch {

using ClientId = int64_t;

class ControlServer {
 public:
  // Binds RUN/control.sock, replacing a stale one (the run's lock is held). Throws Fault::io.
  explicit ControlServer(const std::string& run);
  // Takes up descriptors handed over by a re-exec.
  ControlServer(int listener, const std::map<ClientId, int>& clients);

  std::vector<int> descriptors() const;  // to poll for reading
  // Handles what is readable on `descriptor`; calls `on_request` for each whole request.
  void serve(int descriptor, const std::function<void(ClientId, const Json&)>& on_request);
  void reply(ClientId client, const Json& answer);  // and hang up; no effect if the client is gone

  int listener() const { return listener_.get(); }
  std::map<ClientId, int> clients() const;

 private:
  struct Client {
    UniqueFd fd;
    std::string received;
  };
  void accept_clients();
  bool read_client(Client& client, Json* request, bool* complete);

  UniqueFd listener_;
  std::map<ClientId, Client> clients_;
  ClientId next_id_ = 1;
};

// Sends one request to the launcher of `run` and waits for its answer, at most `milliseconds` (-1: no limit).
// Throws Fault::usage if nothing runs there; an answer with "ok": false is thrown as the Error it describes.
Json ask_launcher(const std::string& run, const Json& request, int milliseconds);
bool launcher_answers(const std::string& run);

Json error_answer(const Error& error);

}  // namespace estrain::launch
