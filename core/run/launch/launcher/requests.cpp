#include "core/run/launch/launcher/requests.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/base/files/run_files.h"
#include "core/run/launch/control/run_status.h"
#include "core/run/launch/preflight/devices.h"
#include "core/state/run_directory/batch_changes.h"

namespace estrain::launch {
namespace {

// Tells whether the host's agent sees the run directory, by a file which the agent or its registry has left in the
// directory (hosts/agents/host_file.h in core/hosts).
bool sees_run(const std::string& run, const std::string& host) {
  const auto text = read_file_if_present(RunFiles(run).host_file(host));
  const Json file = parse_json_if_sound(text.value_or(""));
  return !file.is_object() || file.value("sees_run", true);
}

}  // namespace

struct Requests::Servant {
  Requests& requests;
  const ClientId client;
  const int64_t arrived_ns;

  void operator()(const decisions::StatusRequest&) const {
    requests.run_.control->reply(client, status_as_json(requests.report_.status()));
  }
  void operator()(const decisions::AuditRequest&) const { requests.audits_.ask(client); }
  void operator()(const decisions::StopRequest&) const {
    requests.run_.change.reset();
    requests.run_.decide(decisions::StopAsked{.why = "asked to by `estrain stop`", .client = client});
  }
  void operator()(const decisions::ResizeRequest& resize) const { requests.begin_resize(client, resize); }
  void operator()(const decisions::ChangeRequest& change) const { requests.begin_change(client, change); }
  void operator()(const decisions::OfferRequest& offer) const { requests.ask_offer(client, offer); }
  void operator()(const decisions::ReclaimRequest& reclaim) const { requests.reclaim(client, reclaim, arrived_ns); }
};

void Requests::serve(ClientId client, const decisions::Request& request, int64_t arrived_ns) {
  try {
    std::visit(Servant{*this, client, arrived_ns}, request);
  } catch (const Error& error) {
    run_.control->reply(client, error_answer(error));
  }
}

void Requests::weigh(const decisions::WeighOffer& offer) {
  try {
    take_or_decline(offer.client, devices_of(parse_devices(offer.request.devices, own())));
  } catch (const Error& error) {
    run_.control->reply(offer.client, error_answer(error));
  }
}

// Refuses devices which the job cannot have, at all or while running. The devices in use give the job its bits: new
// devices must be of the same kind.
void Requests::check_wanted(const Wanted& wanted) const {
  const Devices& devices = wanted.devices;
  const bool mixed =
      run_.state.options.allow_mixed || wanted.mixed || run_.spec.job.determinism == spec::Determinism::d2;
  check_hosts(devices, run_.spec, own());
  check_devices(
      devices,
      {.mixed = mixed, .oversubscribed = run_.state.options.oversubscribe || wanted.oversubscribe, .own = own()});
  Devices all = devices_of(devices_in_force(run_.job));
  all.insert(all.end(), devices.begin(), devices.end());
  check_devices(all, {.mixed = mixed, .oversubscribed = true, .own = own()});
  if (!run_.state.options.cuda_streams && run_.spec.job.kernels == spec::Kernels::torch &&
      std::ranges::any_of(devices, &Device::is_gpu)) {
    throw Error(Fault::infeasible, "the state of this run has no place for the random streams of a GPU")
        .advise("stop it, and go on from its checkpoint: estrain train --resume --run DIR --devices cuda:0");
  }
}

void Requests::begin_resize(ClientId client, const decisions::ResizeRequest& request) {
  if (const auto no = why_not_now(run_.job, run_.moment())) throw Error(*no);
  if (request.devices == automatic_devices) return resize_as_planned(client);
  decisions::PendingChange resize;
  resize.client = client;
  const std::string before = request.adds ? placement::list_of(run_.job.held) + "," : "";
  resize.devices = parse_devices(before + request.devices, own());
  check_wanted({devices_of(resize.devices), request.oversubscribe, request.allow_mixed});
  placement::place_ests(resize.devices, run_.spec.job.ests);
  resize.held = devices_of(resize.devices);
  resize.why = "asked to by `estrain resize`";
  run_.state.options.allow_mixed |= request.allow_mixed;
  run_.adviser.past().trial.reset();
  run_.decide(decisions::ChangeAsked{std::move(resize), {}});
}

// Stops the job with a checkpoint; a new launch resumes from the checkpoint (Ending::go_on_changed).
void Requests::begin_change(ClientId client, const decisions::ChangeRequest& request) {
  run_directory::require_changeable(run_.spec);
  if (request.batch.value_or(1) < 1 || !(request.lr_factor.value_or(1) > 0))
    throw Error(Fault::usage, "the batch size and the factor on the learning rates must be positive");
  if (const auto no = why_not_now(run_.job, run_.moment())) throw Error(*no);
  const Step step(run_.trained());
  if (run_directory::is_in_force(run_.spec, run_directory::changed(run_.spec, step, request.batch,
                                                                   request.lr_factor))) {  // asked a second time
    const batches::BatchChange now = run_directory::in_force(run_.spec, step);
    return run_.control->reply(client,
                               {{"ok", true}, {"step", now.after}, {"batch", now.batch}, {"lr_factor", now.lr_factor}});
  }
  for (const std::string& host : other_hosts(devices_of(devices_in_force(run_.job)), own())) {
    if (sees_run(run_.directory.path(), host)) continue;
    throw Error::make(Fault::usage, "host {} does not see the run directory: a new launch would not wait for its agent",
                      host)
        .advise("stop the job, give the command again, and go on: estrain train --resume --listen, with --hosts");
  }
  run_.change = request;
  run_.decide(decisions::StopAsked{.why = "asked to by `estrain change`", .client = client});
}

void Requests::resize_as_planned(ClientId client) {
  std::string reason;
  std::optional<decisions::PendingChange> change = run_.adviser.best_change(run_.job, &reason);
  if (!change) {
    run_.control->reply(client, {{"ok", true},
                                 {"step", run_.trained()},
                                 {"message", "the devices and shares in force are the best: " + reason}});
    return;
  }
  check_hosts(devices_of(change->devices), run_.spec, own());
  change->client = client;
  run_.decide(decisions::ChangeAsked{std::move(*change), {}});
}

// Refuses at once an offer which the job cannot take.
void Requests::ask_offer(ClientId client, const decisions::OfferRequest& request) {
  if (run_.spec.elastic.mode != spec::ElasticMode::automatic)
    throw Error(Fault::usage, "the job does not take offers: its elastic.mode is \"manual\"")
        .advise("use `estrain resize`, or start it with elastic.mode = \"auto\"");
  Devices together = devices_of(parse_devices(request.devices, own()));
  together.insert(together.end(), run_.job.held.begin(), run_.job.held.end());
  check_wanted({together});
  run_.decide(decisions::OfferAsked{client, request});
}

// Takes or declines an offer, and says the reason.
void Requests::take_or_decline(ClientId client, const Devices& offered) {
  OfferWeighed weighed = run_.adviser.weigh(run_.job, offered, crew_.room(), speeds_.course());
  speeds_.note_decision(weighed.what, weighed.reason);
  if (!weighed.change) {
    weighed.answer.update({{"ok", true}, {"step", run_.trained()}});
    return run_.control->reply(client, weighed.answer);
  }
  weighed.change->client = client;
  run_.decide(decisions::ChangeAsked{std::move(*weighed.change), {}});
}

// Gives devices back, at any cost, within the given time.
void Requests::reclaim(ClientId client, const decisions::ReclaimRequest& request, int64_t arrived_ns) {
  decisions::ReclaimAsked asked{client, request, {}, arrived_ns, {}};
  if (!(request.within > 0))
    throw Error(Fault::usage, "a reclaim needs a time within which the devices are to be free");
  asked.wanted = devices_of(parse_devices(request.devices, own()));
  const auto rest = without(run_.job.held, asked.wanted);
  if (run_.memory && rest && !rest->empty()) {
    check_hosts(*rest, run_.spec, own());
    const Devices staying = common(devices_of(devices_in_force(run_.job)), *rest);
    asked.shrunk = run_.adviser.shrunk_to(run_.job, staying, *rest, own());
    run_.adviser.past().trial.reset();
  }
  run_.decide(std::move(asked));
}

}  // namespace estrain::launch
