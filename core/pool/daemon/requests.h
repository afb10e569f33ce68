#pragma once
// Requests to the pool over its control socket.
//
//   {"do": "submit", "spec": TOML, "user": …, "least": 0, "most": 8, "deadline": seconds from now, "priority": 0}
//   {"do": "cancel", "job": 7}      {"do": "policy", "policy": "srtf"}
//   {"do": "add", "devices": LIST}  {"do": "lend", "devices": LIST}
//   {"do": "remove", "devices": LIST, "within": seconds}  {"do": "take", "devices": LIST, "within": seconds}
//   -> {"ok": true, …} | {"ok": false, "fault": …, "error": …, "advice": …}

#include "core/pool/daemon/chronicle.h"
#include "core/pool/daemon/served_pool.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::pool {

class Requests {
 public:
  Requests(ServedPool& pool, Chronicle& chronicle, launch::ControlServer& server)
      : pool_(pool), chronicle_(chronicle), server_(server) {}

  void on_request(launch::ClientId client, const Json& request);
  void carry_out(const dispatch::Released& action);  // answers the client that waits for devices

 private:
  void submit(launch::ClientId client, const Json& request);
  dispatch::JobId claim_folder();
  void write_down(dispatch::JobId id);

  ServedPool& pool_;
  Chronicle& chronicle_;
  launch::ControlServer& server_;
};

}  // namespace estrain::pool
