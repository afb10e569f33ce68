#pragma once
// Requests to a pool's daemon over the pool's control socket, and the replies: the messages of both ends. A request is
// an object on a line, {"do": "cancel", "job": 7}, with the name of the request behind "do". The daemon answers
// {"ok": true, …} with the fields of the reply, or {"ok": false, "fault": …, "error": …, "advice": …}. A new request is
// a struct here, a name in PoolRequest, and a function in core/pool/daemon/requests.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/json/codec.h"
#include "core/base/json/fields.h"
#include "core/base/json/json.h"

namespace estrain::pool {

// The reply to a request with nothing to tell but success.
struct DoneReply {
  template <typename Self, typename Visit>
  static void fields(Self&, Visit&&) {}
};
struct SubmitReply {
  int64_t job = 0;
  std::string run;  // the job's run directory
  ESTRAIN_FIELDS(job, run)
};
// The reply to a withdrawal of devices, once the devices are free.
struct FreeReply {
  std::vector<std::string> devices;
  double seconds = 0;  // from the request to the release
  ESTRAIN_FIELDS(devices, seconds)
};

// Puts a job into the queue. Answered once the job is on the disk.
struct SubmitRequest {
  using Reply = SubmitReply;
  static constexpr std::string_view name = "submit";
  std::string spec;                // TOML
  std::string user;                // empty: the name of who submits the job
  int64_t least = 0;               // devices kept by the job while at work
  std::optional<int64_t> most;     // devices; absent: the job's ESTs
  std::optional<double> deadline;  // s from now
  int64_t priority = 0;
  bool alone = false;       // no other job on the job's hosts
  bool background = false;  // a guest, on free devices or beside other jobs
  ESTRAIN_FIELDS(spec, user, least, most, deadline, priority, alone, background)
};
struct CancelRequest {
  using Reply = DoneReply;
  static constexpr std::string_view name = "cancel";
  int64_t job = 0;
  ESTRAIN_FIELDS(job)
};
// Lets a held job start.
struct ReleaseRequest {
  using Reply = DoneReply;
  static constexpr std::string_view name = "release";
  int64_t job = 0;
  ESTRAIN_FIELDS(job)
};
struct PolicyRequest {
  using Reply = DoneReply;
  static constexpr std::string_view name = "policy";
  std::string policy;
  ESTRAIN_FIELDS(policy)
};

// Devices are lists as users write lists: "cpu*2".
struct AddRequest {
  using Reply = DoneReply;
  static constexpr std::string_view name = "add";
  std::string devices;
  ESTRAIN_FIELDS(devices)
};
struct LendRequest {
  using Reply = DoneReply;
  static constexpr std::string_view name = "lend";
  std::string devices;
  ESTRAIN_FIELDS(devices)
};
// Takes devices out of the pool for good.
struct RemoveRequest {
  using Reply = FreeReply;
  static constexpr std::string_view name = "remove";
  std::string devices;
  std::optional<double> within;  // s; absent: without hurry
  ESTRAIN_FIELDS(devices, within)
};
// Takes devices out of the pool until the devices are lent again.
struct TakeRequest {
  using Reply = FreeReply;
  static constexpr std::string_view name = "take";
  std::string devices;
  std::optional<double> within;  // s; absent: without hurry
  ESTRAIN_FIELDS(devices, within)
};

using PoolRequest = std::variant<SubmitRequest, CancelRequest, ReleaseRequest, PolicyRequest, AddRequest, LendRequest,
                                 RemoveRequest, TakeRequest>;

Json encode_pool_request(const PoolRequest& request);
// Throws Fault::usage for the name of no request, and for a field of the wrong type.
PoolRequest decode_pool_request(const Json& json);

template <codec::HasFields Reply>
Json encode_reply(const Reply& reply) {
  Json json = {{"ok", true}};
  json.update(codec::fields_of(reply));
  return json;
}

bool is_served(const std::string& directory);

// Sends a request and waits without limit for the answer. Throws Fault::usage if no daemon serves the pool, and the
// daemon's error if the daemon refused.
Json answer_of_pool(const std::string& directory, const PoolRequest& request);
template <typename Request>
typename Request::Reply ask_pool(const std::string& directory, const Request& request) {
  typename Request::Reply reply;
  codec::read_fields(answer_of_pool(directory, request), reply);
  return reply;
}

}  // namespace estrain::pool
