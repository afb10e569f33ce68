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
  const MonotonicTime arrived;
  const decisions::Moment& now;

  ToDecide operator()(const decisions::StatusRequest&) const {
    requests.control_->reply(client, status_as_json(requests.parts_.report.status()));
    return std::nullopt;
  }
  ToDecide operator()(const decisions::AuditRequest&) const {
    requests.control_->reply(client, requests.parts_.audits.ask());
    return std::nullopt;
  }
  ToDecide operator()(const decisions::StopRequest&) const {
    requests.forget_batch_change();
    return decisions::StopAsked{.why = "asked to by `estrain stop`", .client = client};
  }
  ToDecide operator()(const decisions::ResizeRequest& resize) const {
    return requests.begin_resize(client, resize, now);
  }
  ToDecide operator()(const decisions::ChangeRequest& change) const {
    return requests.begin_change(client, change, now);
  }
  ToDecide operator()(const decisions::OfferRequest& offer) const { return requests.ask_offer(client, offer); }
  ToDecide operator()(const decisions::ReclaimRequest& reclaim) const {
    return requests.reclaim(client, reclaim, arrived);
  }
};

std::optional<decisions::Event> Requests::serve(const decisions::WaitingRequest& asked, const decisions::Moment& now) {
  try {
    return std::visit(Servant{*this, asked.client, asked.arrived, now}, asked.request);
  } catch (const Error& error) {
    control_->reply(asked.client, error_answer(error));
    return std::nullopt;
  }
}

std::optional<decisions::Event> Requests::weigh(const decisions::WeighOffer& offer) {
  try {
    return take_or_decline(offer.client, devices_of(parse_devices(offer.request.devices, own())));
  } catch (const Error& error) {
    control_->reply(offer.client, error_answer(error));
    return std::nullopt;
  }
}

// Refuses devices which the job cannot have, at all or while running. The devices in use give the job its bits: new
// devices must be of the same kind.
void Requests::check_wanted(const Wanted& wanted) const {
  const Devices& devices = wanted.devices;
  const bool mixed = run_.options.allow_mixed || wanted.mixed || run_.spec.job.determinism == spec::Determinism::d2;
  check_hosts(devices, run_.spec, own());
  check_devices(devices, {.mixed = mixed,
                          .oversubscribed = run_.options.oversubscribe || wanted.oversubscribe,
                          .background = run_.options.background,
                          .own = own()});
  Devices all = devices_of(devices_in_force(run_.job));
  all.insert(all.end(), devices.begin(), devices.end());
  check_devices(all, {.mixed = mixed, .oversubscribed = true, .own = own()});
  if (!run_.options.cuda_streams && run_.spec.job.kernels == spec::Kernels::torch &&
      std::ranges::any_of(devices, &Device::is_gpu)) {
    throw Error(Fault::infeasible, "the state of this run has no place for the random streams of a GPU")
        .advise("stop it, and resume from its checkpoint: estrain train --resume --run DIR --devices cuda:0");
  }
}

Requests::ToDecide Requests::begin_resize(ClientId client, const decisions::ResizeRequest& request,
                                          const decisions::Moment& now) {
  if (const auto no = why_not_now(run_.job, now)) throw Error(*no);
  if (request.devices == automatic_devices) return resize_as_planned(client);
  decisions::PendingChange resize;
  resize.client = client;
  const std::string before = request.adds ? placement::list_of(run_.job.held) + "," : "";
  resize.devices = parse_devices(before + request.devices, own());
  check_wanted({devices_of(resize.devices), request.oversubscribe, request.allow_mixed});
  placement::place_ests(resize.devices, run_.spec.job.ests);
  resize.held = devices_of(resize.devices);
  resize.why = "asked to by `estrain resize`";
  parts_.options.allow_mixed |= request.allow_mixed;
  parts_.speeds.advise(DevicesOrdered{});
  return decisions::ChangeAsked{std::move(resize), {}};
}

// Tells whether the workers at work can take another batch. Else a new launch checks the batch: the memory of GPUs, a
// user's Dataset, the groups of a mini-batch. Over several hosts each host has a record of changes.
bool Requests::workers_can_take_change() const {
  const spec::JobSpec& spec = run_.spec;
  return std::ranges::none_of(run_.job.held, &Device::is_gpu) && other_hosts(run_.job.held, own()).empty() &&
         run_.options.listen.empty() && spec.data.format != spec::DataFormat::python &&
         spec.data.sampler != spec::Sampler::per_class && run_.memory->batch_changes().has_room();
}

// The workers take the change between two steps. Or the job stops with a checkpoint, and a new launch resumes from the
// checkpoint (Ending::go_on_changed).
Requests::ToDecide Requests::begin_change(ClientId client, const decisions::ChangeRequest& request,
                                          const decisions::Moment& now) {
  run_directory::require_changeable(run_.spec);
  if (request.batch.value_or(1) < 1 || !(request.lr_factor.value_or(1) > 0))
    throw Error(Fault::usage, "the batch size and the factor on the learning rates must be positive");
  if (const auto no = why_not_now(run_.job, now)) throw Error(*no);
  const Step step(run_.trained());
  if (run_directory::is_in_force(run_.spec, run_directory::changed(run_.spec, step, request.batch,
                                                                   request.lr_factor))) {  // asked a second time
    const batches::BatchChange in_force = run_directory::in_force(run_.spec, step);
    control_->reply(
        client, {{"ok", true}, {"step", in_force.after}, {"batch", in_force.batch}, {"lr_factor", in_force.lr_factor}});
    return std::nullopt;
  }
  for (const std::string& host : other_hosts(devices_of(devices_in_force(run_.job)), own())) {
    if (sees_run(run_.journal.directory.path(), host)) continue;
    throw Error::make(Fault::usage, "host {} does not see the run directory: a new launch would not wait for its agent",
                      host)
        .advise("stop the job, give the command again, and go on: estrain train --resume --listen, with --hosts");
  }
  if (workers_can_take_change()) {
    decisions::PendingChange change;
    change.client = client;
    change.devices = devices_in_force(run_.job);
    for (const decisions::Member& worker : run_.job.workers) change.workers.push_back(worker.id);
    change.held = run_.job.held;
    change.why = "asked to by `estrain change`";
    change.keeps_devices = true;
    change.batch = request;
    return decisions::ChangeAsked{std::move(change), {}};
  }
  batch_change_ = request;
  return decisions::StopAsked{.why = "asked to by `estrain change`", .client = client};
}

Requests::ToDecide Requests::resize_as_planned(ClientId client) {
  AdviceAction advice = parts_.speeds.advise(BestAsked{}).front();
  auto* proposal = std::get_if<Propose>(&advice.deed);
  if (proposal == nullptr) {
    control_->reply(client, {{"ok", true},
                             {"step", run_.trained()},
                             {"message", "the devices and shares in force are the best: " + advice.reason}});
    return std::nullopt;
  }
  check_hosts(devices_of(proposal->change.devices), run_.spec, own());
  proposal->change.client = client;
  return decisions::ChangeAsked{std::move(proposal->change), {}};
}

// Refuses at once an offer which the job cannot take.
Requests::ToDecide Requests::ask_offer(ClientId client, const decisions::OfferRequest& request) {
  if (run_.spec.elastic.mode != spec::ElasticMode::automatic)
    throw Error(Fault::usage, "the job does not take offers: its elastic.mode is \"manual\"")
        .advise("use `estrain resize`, or start it with elastic.mode = \"auto\"");
  Devices together = devices_of(parse_devices(request.devices, own()));
  together.insert(together.end(), run_.job.held.begin(), run_.job.held.end());
  check_wanted({together});
  return decisions::OfferAsked{client, request};
}

// Takes or declines an offer, and says the reason.
Requests::ToDecide Requests::take_or_decline(ClientId client, const Devices& offered) {
  AdviceAction advice = parts_.speeds.advise(OfferMade{offered, parts_.crew.room()}).front();
  if (auto* decline = std::get_if<Decline>(&advice.deed)) {
    parts_.speeds.note_decision(decline->what, advice.reason);
    decline->answer.update({{"ok", true}, {"step", run_.trained()}});
    control_->reply(client, decline->answer);
    return std::nullopt;
  }
  auto& proposal = std::get<Propose>(advice.deed);
  parts_.speeds.note_decision(proposal.what, advice.reason);
  proposal.change.client = client;
  return decisions::ChangeAsked{std::move(proposal.change), {}};
}

// Gives devices back, at any cost, within the given time.
Requests::ToDecide Requests::reclaim(ClientId client, const decisions::ReclaimRequest& request, MonotonicTime arrived) {
  decisions::ReclaimAsked asked{client, request, {}, arrived, {}};
  if (!(request.within > 0))
    throw Error(Fault::usage, "a reclaim needs a time within which the devices are to be free");
  asked.wanted = devices_of(parse_devices(request.devices, own()));
  const auto rest = without(run_.job.held, asked.wanted);
  if (run_.memory && rest && !rest->empty()) {
    check_hosts(*rest, run_.spec, own());
    const Devices staying = common(devices_of(devices_in_force(run_.job)), *rest);
    AdviceAction advice = parts_.speeds.advise(DevicesReclaimed{staying, *rest, own()}).front();
    asked.shrunk = std::get<Propose>(std::move(advice.deed)).change;
  }
  return asked;
}

}  // namespace estrain::launch
