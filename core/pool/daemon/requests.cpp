#include "core/pool/daemon/requests.h"

#include <filesystem>

#include "core/base/files/files.h"
#include "core/job/placement/assignment.h"
#include "core/job/spec/keys/key_parts.h"
#include "core/job/spec/parsing/parse.h"
#include "core/pool/job_hosts.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::pool {
namespace {

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

dispatch::Request request_for(const spec::JobSpec& spec, const SubmitRequest& asked, double now) {
  dispatch::Request request;
  request.name = spec.job.name;
  request.user = asked.user;
  request.priority = asked.priority;
  request.ests = spec.job.ests;
  request.least = asked.least;
  request.most = std::min(asked.most.value_or(spec.job.ests), spec.job.ests);
  request.mixes_types = spec.job.determinism == spec::Determinism::d2;
  request.weighs_offers = spec.elastic.mode == spec::ElasticMode::automatic;
  // True for jobs that a launcher refuses over several hosts: launch::check_hosts().
  request.one_host = request.weighs_offers || spec.job.determinism == spec::Determinism::d0;
  request.total_steps = spec.train.steps.value_or(0);
  read_batch(spec, request);
  read_devices(spec.resources.devices, request);
  if (asked.deadline) request.deadline = now + *asked.deadline;
  return request;
}

}  // namespace

void Requests::on_request(launch::ClientId client, const Json& request) {
  try {
    std::visit([&](const auto& one) { carry_out(client, one); }, decode_pool_request(request));
  } catch (const Error& error) {
    server_.reply(client, launch::error_answer(error));
  }
}

// Answers when the job is on the disk: from then on, the job is not forgotten.
void Requests::carry_out(launch::ClientId client, const SubmitRequest& request) {
  const spec::JobSpec spec = spec::parse_text(request.spec, "the spec");
  const dispatch::JobId id = claim_folder();
  try {
    write_file_atomically(pool_.directory.spec(id), request.spec);
    const double now = wall_seconds();
    pool_.dispatcher->submit(request_for(spec, request, now), now);
    write_down(id);
  } catch (const Error&) {
    std::error_code failure;
    std::filesystem::remove_all(pool_.directory.job(id), failure);
    throw;
  }
  server_.reply(client, encode_reply(SubmitReply{id, pool_.directory.run(id)}));
}

// Claims a new folder for the next job: the queue may have been lost, or be an old copy.
dispatch::JobId Requests::claim_folder() {
  dispatch::JobId id = pool_.state().last_job + 1;
  make_folders(pool_.directory.path() + "/jobs");
  std::error_code failure;
  while (!std::filesystem::create_directory(pool_.directory.job(id), failure) && !failure) ++id;
  if (failure) throw system_error("cannot create folder " + pool_.directory.job(id), failure.value());
  pool_.dispatcher->number_from(id);
  return id;
}

void Requests::write_down(dispatch::JobId id) {
  try {
    chronicle_.save_or_throw();
  } catch (const Error& error) {
    pool_.dispatcher->forget(id);
    throw error.within("the job was not taken: it cannot be written down");
  }
}

void Requests::carry_out(launch::ClientId client, const CancelRequest& request) {
  pool_.dispatcher->cancel(request.job, wall_seconds());
  server_.reply(client, encode_reply(DoneReply()));
}

void Requests::carry_out(launch::ClientId client, const PolicyRequest& request) {
  pool_.dispatcher->choose_policy(request.policy, wall_seconds());
  server_.reply(client, encode_reply(DoneReply()));
}

void Requests::carry_out(launch::ClientId client, const AddRequest& request) {
  const auto devices = placement::devices_of(launch::parse_devices(request.devices));
  launch::check_devices(devices, {.mixed = true, .oversubscribed = false});
  const std::vector<std::string> names = placement::texts_of(devices);
  require_offered(names, pool_.state(), pool_.agents);
  pool_.dispatcher->add_devices(names, wall_seconds());
  server_.reply(client, encode_reply(DoneReply()));
}

void Requests::carry_out(launch::ClientId client, const LendRequest& request) {
  pool_.dispatcher->lend(names_in(request.devices), wall_seconds());
  server_.reply(client, encode_reply(DoneReply()));
}

void Requests::carry_out(launch::ClientId client, const RemoveRequest& request) {
  const double within = request.within.value_or(dispatch::kNoHurry);
  pool_.dispatcher->withdraw({names_in(request.devices), within, true, client}, wall_seconds());
}

void Requests::carry_out(launch::ClientId client, const TakeRequest& request) {
  const double within = request.within.value_or(dispatch::kNoHurry);
  pool_.dispatcher->withdraw({names_in(request.devices), within, false, client}, wall_seconds());
}

void Requests::carry_out(const dispatch::Released& action) {
  if (action.client != 0) server_.reply(action.client, encode_reply(FreeReply{action.devices, action.seconds}));
}

}  // namespace estrain::pool
