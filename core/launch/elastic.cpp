// The launcher's part in elasticity: offers of devices and their reclaim, plans that are followed. What would be faster
// the adviser says (adviser.h).

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/base/memory_use.h"
#include "core/launch/launcher.h"
#include "core/launch/machine.h"

namespace estrain::launch {

Course Launcher::course() const {
  return {.now_ns = monotonic_ns(),
          .unix_seconds = unix_seconds(),
          .steps_left = std::max<int64_t>(0, manifest_->total_steps - trained()),
          .start_seconds = state_.start_seconds};
}

void Launcher::note_decision(std::string what, std::string reason) {
  const int64_t step = trained();
  directory_.log_event("decision", {{"step", step}, {"what", what}, {"reason", reason}});
  printer_.note(fmt::format("step {}: {}: {}", step, what, reason));
  adviser_.past().note({step, std::move(what), std::move(reason)});
}

void Launcher::resize_as_planned(ClientId client) {
  std::string reason;
  std::optional<conduct::PendingChange> change = adviser_.best_change(job_, &reason);
  if (!change) {
    control_->reply(
        client,
        {{"ok", true}, {"step", trained()}, {"message", "the devices and shares in force are the best: " + reason}});
    return;
  }
  change->client = client;
  decide(conduct::ChangeAsked{std::move(*change), {}});
}

// Refuses at once what the job cannot have.
void Launcher::ask_offer(ClientId client, const conduct::OfferRequest& request) {
  if (spec_.elastic.mode != spec::ElasticMode::automatic)
    throw Error(Fault::usage, "the job does not take offers: its elastic.mode is \"manual\"")
        .advise("use `estrain resize`, or start it with elastic.mode = \"auto\"");
  Devices together = devices_of(parse_devices(request.devices));
  together.insert(together.end(), job_.held.begin(), job_.held.end());
  check_wanted({together});
  decide(conduct::OfferAsked{client, request});
}

// And says what and why.
void Launcher::take_or_decline(ClientId client, const Devices& offered) {
  OfferWeighed weighed = adviser_.weigh(job_, offered, room_for_workers(), course());
  note_decision(weighed.what, weighed.reason);
  if (!weighed.change) {
    weighed.answer.update({{"ok", true}, {"step", trained()}});
    return control_->reply(client, weighed.answer);
  }
  weighed.change->client = client;
  decide(conduct::ChangeAsked{std::move(*weighed.change), {}});
}

// How many more workers there is memory for, if they take as much of their own as those that are there.
WorkerRoom Launcher::room_for_workers() const {
  uint64_t each = 1;
  for (const auto& [id, worker] : state_.workers) {
    const auto status = read_file_if_present(fmt::format("/proc/{}/status", worker.process.pid()));
    each = std::max(each, proc_bytes(status.value_or(""), "RssAnon").value_or(0));
  }
  const AvailableMemory free = available_memory(Machine::here(directory_.path()));
  const auto workers = static_cast<int64_t>(std::min<uint64_t>(free.bytes / each, 1 << 20));
  return {workers, fmt::format("a worker takes {} of memory, {} are {}", format_bytes(each), format_bytes(free.bytes),
                               free.from)};
}

// Gives devices back, whatever it costs, within the time that was set.
void Launcher::reclaim(ClientId client, const conduct::ReclaimRequest& request, int64_t arrived_ns) {
  conduct::ReclaimAsked asked{client, request, {}, arrived_ns, {}};
  if (!(request.within > 0))
    throw Error(Fault::usage, "a reclaim needs a time within which the devices are to be free");
  asked.wanted = devices_of(parse_devices(request.devices));
  const auto rest = without(job_.held, asked.wanted);
  if (memory_ && rest && !rest->empty()) {
    asked.shrunk = adviser_.shrunk_to(job_, common(devices_of(devices_in_force(job_)), *rest), *rest);
    adviser_.past().trial.reset();
  }
  decide(std::move(asked));
}

// What was measured before, by whomever; a profile that cannot be read is no reason not to train.
void Launcher::load_profiles() {
  const std::string path = profile::default_store_path(own_environment());
  if (path.empty()) return;
  try {
    adviser_.companion().profiles = profile_store(path).load().of(spec_, adviser_.companion().host());
  } catch (const Error& error) {
    printer_.note("warning: speeds measured earlier are not used: " + error.message());
  }
}

void Launcher::keep_profiles() {
  const SpeedMeter::Span& stage = adviser_.meter().stage();
  const std::string path = profile::default_store_path(own_environment());
  if (path.empty() || stage.steps == 0 || !adviser_.workers_are_ordinary(job_)) return;
  try {
    profile_store(path).update([&](profile::Profiles& profiles) {
      profiles.learn(spec_, adviser_.companion().host(), as_stage_speed(stage), unix_seconds());
    });
  } catch (const Error& error) {
    printer_.note("warning: the speeds measured are not kept: " + error.message());
  }
}

profile::ProfileStore Launcher::profile_store(const std::string& path) {
  return {path, [this](const std::string& sentence) { printer_.note("warning: " + sentence); }};
}

// After each window of steps.
void Launcher::follow_advice() {
  std::optional<Advice> advice = adviser_.advise(job_, course());
  if (!advice) return;
  note_decision(std::move(advice->what), std::move(advice->reason));
  decide(conduct::ChangeAsked{std::move(advice->change), {}});
}

}  // namespace estrain::launch
