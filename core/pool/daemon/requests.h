#pragma once
// Carries out the requests of users (core/pool/pool_request.h) to a pool's daemon.
//
// A user is who the kernel says is at the other end of the connection. The pool's owners may ask for anything: the
// owner of the pool's folder, the daemon's own user, and root. Others may submit jobs of their own, and command these
// jobs.

#include <cstdint>
#include <optional>

#include "core/pool/daemon/chronicle.h"
#include "core/pool/daemon/pool_dispatcher.h"
#include "core/pool/daemon/pool_hosts.h"
#include "core/pool/pool_request.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::pool {

struct Asker {
  launch::ClientId client = 0;
  uint32_t uid = 0;
};

class PoolRequests {
 public:
  // `owner`: of the pool's folder.
  PoolRequests(PoolDispatcher& dispatcher, const PoolHosts& hosts, Chronicle& chronicle, uint32_t owner)
      : dispatcher_(dispatcher), hosts_(hosts), chronicle_(chronicle), owner_(owner) {}

  // Returns the answer to the client, with the error of a refused request; a submitted job is on the disk by then.
  // Nothing for a withdrawal of devices, whose client is answered by reply_to() once the devices are free.
  std::optional<Json> answer(const Asker& asker, const Json& request);

 private:
  bool is_owner(const Asker& asker) const;
  // Throws Fault::usage if the request is not for this user.
  template <typename Request>
  void require_right(const Asker& asker, const Request& request) const;
  // Throw the error of a refused request.
  std::optional<Json> carry_out(const Asker& asker, const SubmitRequest& request);
  std::optional<Json> carry_out(const Asker& asker, const CancelRequest& request);
  std::optional<Json> carry_out(const Asker& asker, const ReleaseRequest& request);
  std::optional<Json> carry_out(const Asker& asker, const PolicyRequest& request);
  std::optional<Json> carry_out(const Asker& asker, const AddRequest& request);
  std::optional<Json> carry_out(const Asker& asker, const LendRequest& request);
  std::optional<Json> carry_out(const Asker& asker, const RemoveRequest& request);
  std::optional<Json> carry_out(const Asker& asker, const TakeRequest& request);
  dispatch::JobId claim_folder();
  void write_down(dispatch::JobId id);
  void set_user(const Asker& asker, dispatch::Request& request) const;

  PoolDispatcher& dispatcher_;
  const PoolHosts& hosts_;
  Chronicle& chronicle_;
  uint32_t owner_;
};

Json reply_to(const dispatch::Released& action);

}  // namespace estrain::pool
