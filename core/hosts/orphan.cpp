#include "core/hosts/orphan.h"

#include <utility>

#include "core/base/clock.h"
#include "core/hosts/succession/takeover.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kBetweenDecisions = 50ms;
constexpr Nanoseconds kBetweenWords = 5s;

Orphan orphan_of(Courier& courier, const OrphanHost::Options& options) {
  Orphan orphan{.name = options.name,
                .hosts = {},
                .stage = 0,
                .fit = courier.is_fit(),
                .sees_run = options.sees_run,
                .sees_locks = options.sees_locks,
                .patience = options.patience};
  if (const HostPlan* last = courier.last_plan()) {
    if (courier.holding().last_stage()) orphan.stage = last->stage;
    for (const HostShare& host : last->hosts) orphan.hosts.push_back(host.name);
  }
  return orphan;
}

}  // namespace

OrphanHost::OrphanHost(net::Loop& loop, Courier& courier, const run_directory::RunDirectory& directory, Options options)
    : courier_(courier),
      directory_(directory),
      options_(std::move(options)),
      lost_(MonotonicClock::now()),
      succession_(succession_of(orphan_of(courier, options_), courier.links().names(), lost_)),
      timer_(loop.every(kBetweenDecisions, [this] { happened(TimePasses{}); })) {}

void OrphanHost::happened(const SuccessionEvent& event) {
  for (const SuccessionAction& action : decide(succession_, event, MonotonicClock::now()))
    std::visit([&](const auto& deed) { carry_out(deed, action.reason); }, action.deed);
}

void OrphanHost::carry_out(const TellOthers& deed, const std::string&) {
  courier_.links().tell_all(OrphanClaims{deed.claim});
}

// Says now and then why this host does not lead yet.
void OrphanHost::carry_out(const KeepWaiting&, const std::string& reason) {
  const MonotonicTime now = MonotonicClock::now();
  if (now - said_ < kBetweenWords) return;
  said_ = now;
  fmt::print("host {}: does not lead after {:.0f} s: {}\n", options_.name, seconds(now - lost_).count(), reason);
  std::fflush(stdout);
}

void OrphanHost::carry_out(const TryLease&, const std::string&) {
  Lease lease = take_lease(directory_, {options_.term, succession_.orphan.stage}, options_.sees_locks);
  lock_ = std::move(lease.lock);
  happened(LeaseAnswered{lease.answer});
}

void OrphanHost::carry_out(const TakeOver& deed, const std::string&) { lead(std::move(*lock_), deed.at_checkpoint); }

void OrphanHost::carry_out(const EndOnThisHost&, const std::string& reason) { options_.end(reason); }

void OrphanHost::lead(UniqueFd lock, bool at_checkpoint) {
  const int64_t step = at_checkpoint ? newest_checkpoint(directory_) : courier_.put_in_order();
  const HostPlan* known = courier_.last_plan();
  const HostPlan last = known == nullptr ? options_.alone : *known;
  const std::string devices =
      known == nullptr ? options_.own_devices : devices_left(last, options_.name, courier_.links().names());
  fmt::print("host {}: takes the coordinator's place at step {}, on {}\n", options_.name, step, devices);
  std::fflush(stdout);
  launch::SharedDescriptors shared = options_.shared;
  shared.lock = lock.get();
  const bool saved = at_checkpoint || save_state(directory_, shared, courier_.holding().records_from());
  directory_.log_event("takeover", {{"step", step},
                                    {"host", options_.name},
                                    {"devices", devices},
                                    {"saved", saved},
                                    {"seconds", seconds(MonotonicClock::now() - lost_).count()}});
  remove_host_file(directory_.path(), options_.name, options_.own_file);
  become_coordinator(directory_, last, devices, options_.name, std::move(lock));
}

}  // namespace estrain::hosts
