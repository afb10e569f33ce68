#include "core/pool/daemon/requests.h"

#include <filesystem>

#include "core/base/files/files.h"
#include "core/base/json/json_fields.h"
#include "core/job/placement/assignment.h"
#include "core/job/spec/keys/key_parts.h"
#include "core/job/spec/parsing/parse.h"
#include "core/pool/job_hosts.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::pool {
namespace {

std::vector<std::string> devices_in(const Json& request) { return names_in(text_in(request, "devices").value_or("")); }

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

dispatch::Request request_for(const spec::JobSpec& spec, const Json& asked, double now) {
  dispatch::Request request;
  request.name = spec.job.name;
  request.user = text_in(asked, "user").value_or("");
  request.priority = whole_in(asked, "priority").value_or(0);
  request.ests = spec.job.ests;
  request.least = whole_in(asked, "least").value_or(0);
  request.most = std::min(whole_in(asked, "most").value_or(spec.job.ests), spec.job.ests);
  request.mixes_types = spec.job.determinism == spec::Determinism::d2;
  request.weighs_offers = spec.elastic.mode == spec::ElasticMode::automatic;
  // True for jobs that a launcher refuses over several hosts: launch::check_hosts().
  request.one_host = request.weighs_offers || spec.job.determinism == spec::Determinism::d0;
  request.total_steps = spec.train.steps.value_or(0);
  read_batch(spec, request);
  read_devices(spec.resources.devices, request);
  if (const auto seconds = number_in(asked, "deadline")) request.deadline = now + *seconds;
  return request;
}

}  // namespace

// Answers when the job is on the disk: from then on, the job is not forgotten.
void Requests::submit(launch::ClientId client, const Json& asked) {
  const std::string text = text_in(asked, "spec").value_or("");
  const spec::JobSpec spec = spec::parse_text(text, "the spec");
  const dispatch::JobId id = claim_folder();
  try {
    write_file_atomically(pool_.directory.spec(id), text);
    const double now = wall_seconds();
    pool_.dispatcher->submit(request_for(spec, asked, now), now);
    write_down(id);
  } catch (const Error&) {
    std::error_code failure;
    std::filesystem::remove_all(pool_.directory.job(id), failure);
    throw;
  }
  server_.reply(client, {{"ok", true}, {"job", id}, {"run", pool_.directory.run(id)}});
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

void Requests::on_request(launch::ClientId client, const Json& request) {
  const std::string verb = text_in(request, "do").value_or("");
  const double now = wall_seconds();
  try {
    if (verb == "submit") return submit(client, request);
    if (verb == "take" || verb == "remove") {
      // Answered when the devices are free.
      const double within = number_in(request, "within").value_or(dispatch::kNoHurry);
      return pool_.dispatcher->withdraw({devices_in(request), within, verb == "remove", client}, now);
    }
    if (verb == "cancel") {
      pool_.dispatcher->cancel(whole_in(request, "job").value_or(0), now);
    } else if (verb == "policy") {
      pool_.dispatcher->choose_policy(text_in(request, "policy").value_or(""), now);
    } else if (verb == "lend") {
      pool_.dispatcher->lend(devices_in(request), now);
    } else if (verb == "add") {
      const auto devices = placement::devices_of(launch::parse_devices(text_in(request, "devices").value_or("")));
      launch::check_devices(devices, {.mixed = true, .oversubscribed = false});
      require_offered(placement::texts_of(devices), pool_.state(), pool_.agents);
      pool_.dispatcher->add_devices(placement::texts_of(devices), now);
    } else {
      throw Error::make(Fault::usage, "a pool cannot \"{}\"", verb);
    }
    server_.reply(client, {{"ok", true}});
  } catch (const Error& error) {
    server_.reply(client, launch::error_answer(error));
  }
}

void Requests::carry_out(const dispatch::Released& action) {
  if (action.client == 0) return;
  server_.reply(action.client, {{"ok", true}, {"devices", action.devices}, {"seconds", action.seconds}});
}

}  // namespace estrain::pool
