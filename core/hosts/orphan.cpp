#include "core/hosts/orphan.h"

#include <utility>

#include "core/base/clock.h"
#include "core/hosts/succession/takeover.h"

namespace estrain::hosts {
namespace {

constexpr int kBetweenDecisionsMs = 50;
constexpr int64_t kBetweenClaimsNs = 200'000'000;
constexpr int64_t kBetweenWordsNs = 5'000'000'000;

Orphan orphan_of(Courier& courier, const OrphanHost::Options& options) {
  Orphan orphan{.name = options.name,
                .hosts = {},
                .stage = 0,
                .fit = courier.is_fit(),
                .sees_run = options.sees_run,
                .sees_locks = options.sees_locks,
                .patience_ns = options.patience_ns};
  if (const HostPlan* last = courier.last_plan()) {
    if (courier.holding().last_stage()) orphan.stage = last->stage;
    for (const HostShare& host : last->hosts) orphan.hosts.push_back(host.name);
  }
  return orphan;
}

// Why an orphan does not lead as yet.
const char* why_not(const Orphan& orphan) {
  if (!orphan.sees_run) return "it does not see the run directory";
  return orphan.fit ? "another host comes first, or has not answered"
                    : "this host lacks steps, or records that the run's files lack";
}

}  // namespace

OrphanHost::OrphanHost(net::Loop& loop, Courier& courier, const run_directory::RunDirectory& directory, Options options)
    : courier_(courier),
      directory_(directory),
      options_(std::move(options)),
      lost_ns_(monotonic_ns()),
      succession_(orphan_of(courier, options_), courier.links().names(), lost_ns_),
      timer_(loop.every(kBetweenDecisionsMs, [this] { look(); })) {}

void OrphanHost::look() {
  const Succession::Step next = succession_.next(monotonic_ns());
  tell_claim();
  if (next == Succession::Step::end) return options_.end(succession_.why());
  if (next != Succession::Step::take_lease) return say_now_and_then(why_not(succession_.orphan()));
  Lease lease = take_lease(directory_, {options_.term, succession_.orphan().stage}, options_.sees_locks);
  succession_.answer(lease.answer);
  if (lease.lock) return lead(std::move(*lease.lock), lease.answer == LeaseAnswer::taken_at_checkpoint);
  say_now_and_then("the run's lock is held, or its owner is at work");
}

void OrphanHost::say_now_and_then(const char* why) {
  const int64_t now = monotonic_ns();
  if (now - said_ns_ < kBetweenWordsNs) return;
  said_ns_ = now;
  fmt::print("host {}: does not lead after {:.0f} s: {}\n", options_.name, seconds(now - lost_ns_), why);
  std::fflush(stdout);
}

void OrphanHost::tell_claim() {
  const int64_t now = monotonic_ns();
  const Claim& claim = succession_.claim();
  if (claim == told_ && now - told_ns_ < kBetweenClaimsNs) return;
  told_ = claim;
  told_ns_ = now;
  courier_.links().tell_all(OrphanClaims{claim});
}

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
                                    {"seconds", seconds(monotonic_ns() - lost_ns_)}});
  remove_host_file(directory_.path(), options_.name, options_.own_file);
  become_coordinator(directory_, last, devices, options_.name, std::move(lock));
}

}  // namespace estrain::hosts
