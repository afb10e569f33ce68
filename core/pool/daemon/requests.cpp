#include "core/pool/daemon/requests.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/job/placement/assignment.h"
#include "core/job/spec/defaults.h"
#include "core/job/spec/keys/key_parts.h"
#include "core/job/spec/parsing/parse.h"
#include "core/pool/daemon/own_devices.h"
#include "core/pool/job_inputs.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::pool {
namespace {

// The name of the user's account; of a user without an account the number.
std::string user_name(uint32_t uid) {
  const passwd* account = ::getpwuid(uid);
  return account != nullptr ? account->pw_name : std::to_string(uid);
}

// "anna (uid 1000)"
std::string named_user(uint32_t uid) { return fmt::format("{} (uid {})", user_name(uid), uid); }

// Takes the number and type of devices from the spec. "auto" and plain numbers leave the type to the pool.
void read_devices(const std::string& list, dispatch::Request& request) {
  if (list == launch::automatic_devices) {
    request.devices = request.most;
    return;
  }
  const std::vector<std::string> kinds = names_in(list);
  request.devices = static_cast<int64_t>(kinds.size());
  const std::string type = dispatch::Slot{0, kinds.front()}.type();
  if (type != "cpu") request.type = type;
}

void read_batch(const spec::JobSpec& spec, dispatch::Request& request) {
  if (spec.elastic.batch != spec::BatchMode::adaptive) return;
  request.batch.emplace();
  request.batch->epochs = spec.train.epochs.value_or(0);
  request.batch->terms = {spec.data.batch, 1, spec::kMostSamples, spec.optimizer.name != spec::OptimizerKind::sgd};
  const std::vector<int64_t>& range = spec.elastic.batch_range;
  if (range.empty()) return;
  request.batch->terms.least = range[0];
  request.batch->terms.most = range[1];
}

void read_early_stop(const spec::JobSpec& spec, dispatch::Request& request) {
  const spec::EarlyStopSection& rule = spec.early_stop;
  if (rule.patience == 0) return;
  request.early_stop = dispatch::EarlyStop{.patience = rule.patience,
                                           .min_delta = rule.min_delta,
                                           .falls = spec::improves_by_falling(spec.train, rule.metric),
                                           .samples = static_cast<double>(spec.job.ests * spec.data.batch),
                                           .metric = rule.metric};
}

dispatch::Request request_for(const spec::JobSpec& spec, const SubmitRequest& asked, double now) {
  dispatch::Request request;
  request.name = spec.job.name;
  request.user = asked.user;
  request.priority = asked.priority;
  request.alone = asked.alone;
  request.background = asked.background;
  request.ests = spec.job.ests;
  request.least = asked.least;
  request.most = std::min(asked.most.value_or(spec.job.ests), spec.job.ests);
  request.mixes_types = spec.job.determinism == spec::Determinism::d2;
  request.weighs_offers = spec.elastic.mode == spec::ElasticMode::automatic;
  // True for jobs refused by a launcher over several hosts: launch::check_hosts().
  request.one_host = request.weighs_offers || spec.job.determinism == spec::Determinism::d0;
  request.total_steps = spec.train.steps.value_or(0);
  request.inputs = inputs_of(spec);
  read_batch(spec, request);
  read_early_stop(spec, request);
  read_devices(spec.resources.devices, request);
  if (asked.deadline) request.deadline = now + *asked.deadline;
  return request;
}

// Requires that agents offer the devices of other hosts, and that the pool lacks these devices. Throws Fault::usage.
void require_offered(const std::vector<std::string>& names, const dispatch::State& state, const Agents& agents) {
  for (const std::string& name : names) {
    const std::string host = dispatch::Slot{0, name}.host();
    if (host.empty()) continue;
    const std::vector<std::string> offered = agents.offered(host);
    const auto has = std::ranges::count(state.slots, name, &dispatch::Slot::name);
    const auto more = std::ranges::count(names, name), most = std::ranges::count(offered, name);
    if (has + more <= most) continue;
    if (most == 0)
      throw Error::make(Fault::usage, "no agent in the pool offers {}", name)
          .advise("start one on that host: estrain agent --pool DIR");
    throw Error::make(Fault::usage, "the agent of {} offers {} of {}, and the pool has {} of them", host, most, name,
                      has);
  }
}

}  // namespace

std::optional<Json> PoolRequests::answer(const Asker& asker, const Json& request) {
  try {
    const auto carry_out_by_right = [&](const auto& one) {
      require_right(asker, one);
      return carry_out(asker, one);
    };
    return std::visit(carry_out_by_right, decode_pool_request(request));
  } catch (const Error& error) {
    return launch::error_answer(error);
  }
}

bool PoolRequests::is_owner(const Asker& asker) const {
  return asker.uid == owner_ || launch::may_command(asker.uid, ::geteuid());
}

// The dispatcher refuses a request for a job that is not there.
template <typename Request>
void PoolRequests::require_right(const Asker& asker, const Request& request) const {
  if (is_owner(asker)) return;
  if constexpr (requires { request.job; }) {
    const auto job = dispatcher_.state().jobs.find(request.job);
    if (job == dispatcher_.state().jobs.end() || job->second.request.uid == asker.uid) return;
    const dispatch::Request& of = job->second.request;
    throw Error::make(Fault::usage, "{}: job {} belongs to {} (uid {}), and you are {}", Request::name, request.job,
                      of.user, of.uid, named_user(asker.uid))
        .advise("ask " + of.user + ", or the pool's owner, " + named_user(owner_));
  } else if constexpr (!std::is_same_v<Request, SubmitRequest>) {
    throw Error::make(Fault::usage, "{}: the pool belongs to {}, and you are {}", Request::name, named_user(owner_),
                      named_user(asker.uid))
        .advise("ask the pool's owner");
  }
}

// Sets who owns a new job. An owner of the pool may submit for a user without an account on this host: the owner who
// asks has the job then.
void PoolRequests::set_user(const Asker& asker, dispatch::Request& request) const {
  const std::string own = user_name(asker.uid);
  request.uid = asker.uid;
  if (request.user.empty()) request.user = own;
  if (request.user == own) return;
  if (!is_owner(asker)) {
    throw Error::make(Fault::usage, "--user {}: you are {}, and only the pool's owner submits jobs for other users",
                      request.user, named_user(asker.uid))
        .advise("leave --user out");
  }
  if (const passwd* account = ::getpwnam(request.user.c_str())) request.uid = account->pw_uid;
}

// Answers when the job is on the disk: from then on, the job is not forgotten.
std::optional<Json> PoolRequests::carry_out(const Asker& asker, const SubmitRequest& request) {
  const spec::JobSpec spec = spec::parse_text(request.spec, "the spec");
  dispatch::Request wanted = request_for(spec, request, wall_seconds());
  set_user(asker, wanted);
  const dispatch::JobId id = claim_folder();
  try {
    write_file_atomically(hosts_.directory.spec(id), request.spec);
    dispatcher_.tell(dispatch::Submitted{std::move(wanted)});
    write_down(id);
  } catch (const Error&) {
    std::error_code failure;
    std::filesystem::remove_all(hosts_.directory.job(id), failure);
    throw;
  }
  return encode_reply(SubmitReply{id, hosts_.directory.run(id)});
}

// Claims a new folder for the next job: the queue may have been lost, or be an old copy.
dispatch::JobId PoolRequests::claim_folder() {
  dispatch::JobId id = dispatcher_.state().last_job + 1;
  make_folders(hosts_.directory.path() + "/jobs");
  std::error_code failure;
  while (!std::filesystem::create_directory(hosts_.directory.job(id), failure) && !failure) ++id;
  if (failure) throw system_error("cannot create folder " + hosts_.directory.job(id), failure.value());
  dispatcher_.tell(dispatch::NumbersTaken{id});
  return id;
}

void PoolRequests::write_down(dispatch::JobId id) {
  try {
    chronicle_.save_or_throw(dispatcher_.state());
  } catch (const Error& error) {
    dispatcher_.undo_submission(id);
    throw error.within("the job was not taken: it cannot be written down");
  }
}

std::optional<Json> PoolRequests::carry_out(const Asker&, const CancelRequest& request) {
  dispatcher_.tell(dispatch::CancelAsked{request.job});
  return encode_reply(DoneReply());
}

std::optional<Json> PoolRequests::carry_out(const Asker&, const ReleaseRequest& request) {
  dispatcher_.tell(dispatch::ReleaseAsked{request.job});
  return encode_reply(DoneReply());
}

std::optional<Json> PoolRequests::carry_out(const Asker&, const PolicyRequest& request) {
  dispatcher_.tell(dispatch::PolicyChosen{request.policy});
  return encode_reply(DoneReply());
}

std::optional<Json> PoolRequests::carry_out(const Asker&, const AddRequest& request) {
  const auto devices = placement::devices_of(launch::parse_devices(request.devices));
  launch::check_devices(devices, {.mixed = true, .oversubscribed = false});
  const std::vector<std::string> names = placement::texts_of(devices);
  require_offered(names, dispatcher_.state(), hosts_.agents);
  dispatcher_.tell(dispatch::DevicesAdded{names});
  return encode_reply(DoneReply());
}

std::optional<Json> PoolRequests::carry_out(const Asker&, const LendRequest& request) {
  dispatcher_.tell(dispatch::DevicesLent{names_in(request.devices)});
  return encode_reply(DoneReply());
}

std::optional<Json> PoolRequests::carry_out(const Asker& asker, const RemoveRequest& request) {
  dispatcher_.tell(dispatch::Withdrawal{names_in(request.devices), request.within, true, asker.client});
  return std::nullopt;
}

std::optional<Json> PoolRequests::carry_out(const Asker& asker, const TakeRequest& request) {
  dispatcher_.tell(dispatch::Withdrawal{names_in(request.devices), request.within, false, asker.client});
  return std::nullopt;
}

Json reply_to(const dispatch::Released& action) { return encode_reply(FreeReply{action.devices, action.seconds}); }

}  // namespace estrain::pool
