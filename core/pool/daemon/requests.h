#pragma once
// Carries out the requests of users (core/pool/pool_request.h) to a pool's daemon.

#include <optional>

#include "core/pool/daemon/chronicle.h"
#include "core/pool/daemon/pool_dispatcher.h"
#include "core/pool/daemon/pool_hosts.h"
#include "core/pool/pool_request.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::pool {

class PoolRequests {
 public:
  PoolRequests(PoolDispatcher& dispatcher, const PoolHosts& hosts, Chronicle& chronicle)
      : dispatcher_(dispatcher), hosts_(hosts), chronicle_(chronicle) {}

  // Returns the answer to the client, with the error of a refused request; a submitted job is on the disk by then.
  // Nothing for a withdrawal of devices, whose client is answered by reply_to() once the devices are free.
  std::optional<Json> answer(launch::ClientId client, const Json& request);

 private:
  // Throw the error of a refused request.
  std::optional<Json> carry_out(launch::ClientId client, const SubmitRequest& request);
  std::optional<Json> carry_out(launch::ClientId client, const CancelRequest& request);
  std::optional<Json> carry_out(launch::ClientId client, const ReleaseRequest& request);
  std::optional<Json> carry_out(launch::ClientId client, const PolicyRequest& request);
  std::optional<Json> carry_out(launch::ClientId client, const AddRequest& request);
  std::optional<Json> carry_out(launch::ClientId client, const LendRequest& request);
  std::optional<Json> carry_out(launch::ClientId client, const RemoveRequest& request);
  std::optional<Json> carry_out(launch::ClientId client, const TakeRequest& request);
  dispatch::JobId claim_folder();
  void write_down(dispatch::JobId id);

  PoolDispatcher& dispatcher_;
  const PoolHosts& hosts_;
  Chronicle& chronicle_;
};

Json reply_to(const dispatch::Released& action);

}  // namespace estrain::pool
