#pragma once
// Carries out the requests of users (core/pool/pool_request.h) to a pool's daemon, and replies.

#include "core/pool/daemon/chronicle.h"
#include "core/pool/daemon/served_pool.h"
#include "core/pool/pool_request.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::pool {

class Requests {
 public:
  Requests(ServedPool& pool, Chronicle& chronicle, launch::ControlServer& server)
      : pool_(pool), chronicle_(chronicle), server_(server) {}

  void on_request(launch::ClientId client, const Json& request);
  void carry_out(const dispatch::Released& action);  // answers the client that waits for devices

 private:
  // Throw what the client is told. A withdrawal is answered by Released.
  void carry_out(launch::ClientId client, const SubmitRequest& request);
  void carry_out(launch::ClientId client, const CancelRequest& request);
  void carry_out(launch::ClientId client, const PolicyRequest& request);
  void carry_out(launch::ClientId client, const AddRequest& request);
  void carry_out(launch::ClientId client, const LendRequest& request);
  void carry_out(launch::ClientId client, const RemoveRequest& request);
  void carry_out(launch::ClientId client, const TakeRequest& request);
  dispatch::JobId claim_folder();
  void write_down(dispatch::JobId id);

  ServedPool& pool_;
  Chronicle& chronicle_;
  launch::ControlServer& server_;
};

}  // namespace estrain::pool
