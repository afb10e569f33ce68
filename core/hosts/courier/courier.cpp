#include "core/hosts/courier/courier.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/hosts/step/step_exchange.h"
#include "core/state/comm/stage_control.h"

namespace estrain::hosts {
namespace {

constexpr int kTicksBetweenPaces = 100;
// Two hosts that are cut off from each other notice the cut at different moments.
constexpr Nanoseconds kWaitForReports = 200ms;

bool is_in(const HostPlan& plan, const std::string& host) {
  return std::ranges::find(plan.hosts, host, &HostShare::name) != plan.hosts.end();
}

bool concerns(const HostPlan& plan, const LossReport& report) {
  return is_in(plan, report.from) && is_in(plan, report.lost.host);
}

}  // namespace

std::vector<LostHost> hosts_to_leave(std::vector<LossReport> reports, const std::vector<std::string>& order) {
  std::vector<LostHost> leave;
  while (!reports.empty()) {
    const auto rank = [&](const LossReport& report) {
      const auto named =
          std::ranges::count_if(reports, [&](const LossReport& other) { return other.lost.host == report.lost.host; });
      return std::pair(named, std::ranges::find(order, report.lost.host) - order.begin());
    };
    leave.push_back(std::ranges::max_element(reports, {}, rank)->lost);
    std::erase_if(reports, [&](const LossReport& report) {
      return report.from == leave.back().host || report.lost.host == leave.back().host;
    });
  }
  return leave;
}

Courier::Courier(net::Loop& loop, Options options)
    : options_(std::move(options)),
      leads_(options_.own.host.empty()),
      holding_(options_.memory),
      links_(loop,
             {.key = options_.key,
              .own = options_.own,
              .from = options_.from,
              .connected =
                  [this](const std::string&) {
                    entrance_.try_open();
                    stage_.serve_workers();
                  },
              .lost = [this](const std::string& name, const Error& why, bool silent) { on_lost(name, why, silent); },
              .message = [this](const std::string& from, const CourierMessage& said) { on_message(from, said); },
              .measured =
                  [this](const std::string& host, double round_trip, double bytes) {
                    options_.tell(LinkMeasured{host, round_trip, bytes});
                  },
              .landing = [this](const std::string& host, const net::FrameHead& head) { return landing(host, head); }}),
      stage_(loop, links_, [this](const Error& error) { fail(error); }),
      entrance_(links_, holding_, stage_, leads_, [this](const HostPlan& plan) { on_opened(plan); }),
      beats_(links_, holding_, stage_, leads_) {
  bell_ = loop.watch(options_.doorbell, [this] {
    uint64_t rung;
    (void)!::read(options_.doorbell, &rung, sizeof rung);
    stage_.serve_workers();
  });
  timer_ = loop.every(10ms, [this] { on_timer(); });
}

std::optional<Landing> Courier::landing(const std::string& host, const net::FrameHead& head) {
  if (head.kind == beat) return beats_.landing(host, head);
  if (head.kind == state) return entrance_.landing(host, head);
  return stage_.landing(host, head);
}

void Courier::on_lost(const std::string& name, const Error& why, bool silent) {
  const LostHost lost{name, why.message()};
  if (!leads_ && links_.tell("", lost)) return;
  if (leads_ && silent) count_silent(name);  // the launcher hears of giving up first, and opens no new stage
  if (leads_) lost_.insert(name);
  options_.tell(lost);
}

// A silent host may live, together with other living hosts. Such hosts may be a majority and take over, once this
// host's launcher has released the run directory's lock.
void Courier::count_silent(const std::string& name) {
  const std::optional<HostPlan>& last = holding_.last_stage();
  if (!last || gave_up_ || !is_in(*last, name)) return;
  silent_.insert(name);
  const auto see_the_run = std::ranges::count_if(
      last->hosts, [&](const HostShare& host) { return host.sees_run && silent_.contains(host.name); });
  if (!must_give_up(last->hosts.size(), silent_.size(), static_cast<size_t>(see_the_run))) return;
  gave_up_ = true;
  abort_stage();
  const Error error = Error::make(Fault::interrupted, "this host is cut off from {} of the job's {} hosts",
                                  silent_.size(), last->hosts.size())
                          .advise("the others continue if they can; else: estrain train --resume");
  CourierFailed failed(options_.own.host, error);
  failed.gives_up = true;
  options_.tell(failed);
}

// A report counts if both of its hosts are in the current plan, and the reporting host has not been lost. A host that
// has left may report later than the hosts that stay, and its agent may live.
void Courier::judge_reports() {
  if (reports_.empty() || MonotonicClock::now() - reported_ < kWaitForReports) return;
  const HostPlan* plan = entrance_.plan() != nullptr ? entrance_.plan() : last_plan();
  std::erase_if(reports_, [&](const LossReport& report) {
    return lost_.contains(report.from) || plan == nullptr || !concerns(*plan, report);
  });
  std::vector<std::string> order;
  if (plan != nullptr) {
    for (const HostShare& host : plan->hosts) order.push_back(host.name);
  }
  for (const LostHost& lost : hosts_to_leave(std::exchange(reports_, {}), order)) {
    lost_.insert(lost.host);
    options_.tell(lost);
  }
}

void Courier::fail(const Error& error) {
  const CourierFailed failed(options_.own.host, error);
  if (leads_) return options_.tell(failed);
  links_.tell("", failed);
}

void Courier::begin_stage(HostPlan plan) {
  beats_.begin_stage();
  std::erase_if(reports_, [&](const LossReport& report) { return !concerns(plan, report); });
  lost_.clear();
  entrance_.begin(std::move(plan));
}

void Courier::end_run(bool goes_on) {
  if (!gave_up_) links_.tell_all(RunEnds{goes_on});
}

void Courier::on_message(const std::string& from, const CourierMessage& said) {
  if (leads_) return std::visit([&](const auto& one) { hear_host(from, one); }, said);
  if (const auto* claims = std::get_if<OrphanClaims>(&said)) return options_.tell(ClaimHeard{from, claims->claim});
  if (from.empty()) std::visit([this](const auto& one) { hear_coordinator(one); }, said);
}

void Courier::hear_host(const std::string& from, const LeavesCoordinator&) {
  links_.drop(from, Error(Fault::peer, "it has let go of this host"), true);
}

// Waits for further reports: the first alone does not tell which host most others have lost.
void Courier::hear_host(const std::string& from, const LostHost& said) {
  if (reports_.empty()) reported_ = MonotonicClock::now();
  reports_.push_back({from, said});
}

void Courier::hear_host(const std::string&, const CourierFailed& said) { options_.tell(said); }

void Courier::hear_host(const std::string& from, const ReceivedState& said) {
  options_.tell(ReceivedState{from, said.step, said.shares});
}

void Courier::hear_host(const std::string& from, const ExchangePace& said) {
  options_.tell(ExchangePace{from, said.exchange_seconds});
}

void Courier::hear_coordinator(const EnterStage& said) {
  try {
    entrance_.follow(said);
  } catch (const Error& error) {
    fail(error.within("host " + options_.own.host));
  }
}

void Courier::hear_coordinator(const RunEnds& said) { options_.tell(said); }

void Courier::hear_coordinator(const StageAborted& said) {
  const uint64_t stage = said.stage;
  if (entrance_.plan() != nullptr && entrance_.plan()->stage == stage) {
    entrance_.give_up();
    options_.aborted(stage);
  } else if (stage_.number() == stage) {
    abort_stage();
  } else if (stage_.number() < stage) {
    options_.aborted(stage);  // the stage ended before its plan was sent
  }
}

void Courier::on_opened(const HostPlan& plan) {
  if (!leads_) comm::StageControl(holding_.memory()).open();
  holding_.note_opened(plan);
  silent_.clear();
  stage_.begin(holding_.memory(), plan);
  links_.tell("", StageOpened{plan.stage});
  if (options_.opened) options_.opened(plan.stage);
  if (leads_) beats_.send();  // other hosts know the run's files as of the order, not as of now
  links_.retry();
  stage_.serve_workers();
}

void Courier::abort_stage() {
  if (stage_.abort() && leads_) tell_abort(stage_.number());
}

void Courier::tell_abort(uint64_t stage) { links_.tell_all(StageAborted{stage}); }

// After the coordinator is lost.

int64_t Courier::put_in_order() {
  stage_.keep_whole_step();
  comm::StageControl(holding_.memory()).repair();
  return holding_.memory().commit().committed().value;
}

const HostPlan* Courier::last_plan() const {
  const std::optional<HostPlan>& opened = holding_.last_stage();
  return opened ? &*opened : entrance_.plan();
}

void Courier::retire() {
  bell_.reset();
  timer_.reset();
  links_.retire();
  entrance_.give_up();
  stage_.forget();
  holding_.let_go();
}

void Courier::on_timer() {
  pass_on_abort();
  judge_reports();
  entrance_.look(MonotonicClock::now());
  stage_.serve_workers();
  beats_.send_in_time();
  if (ticks_++ % kTicksBetweenPaces == 0) tell_pace();
  if (const auto factors = stage_.take_chosen_factors(); leads_ && factors)
    options_.tell(FactorsChosen{factors->parameters, factors->gradient_bytes, factors->bytes, factors->without_factors,
                                factors->too_large, factors->too_slow});
  links_.look();
}

// Only the launcher aborts. An aborted stage that was not open yet never opens.
void Courier::pass_on_abort() {
  if (!leads_ || !holding_.was_used() || !holding_.memory().gate().aborted()) return;
  const HostPlan* opening = entrance_.plan();
  if (opening == nullptr) return abort_stage();
  tell_abort(opening->stage);
  entrance_.give_up();
}

void Courier::tell_pace() {
  const StepExchange::TimeTaken pace = stage_.take_pace();
  if (pace.exchanges == 0) return;
  const ExchangePace said{options_.own.host, seconds(pace.ns) / static_cast<double>(pace.exchanges)};
  if (leads_) return options_.tell(said);
  links_.tell("", said);
}

}  // namespace estrain::hosts
