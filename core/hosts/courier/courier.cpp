#include "core/hosts/courier/courier.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/base/json/codec.h"
#include "core/hosts/succession/succession.h"
#include "core/state/comm/messages/failed.h"
#include "core/state/comm/stage_control.h"

namespace estrain::hosts {
namespace {

constexpr int kTicksBetweenPaces = 100;

}  // namespace

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
              .message = [this](const std::string& from, const Json& said) { on_message(from, said); },
              .measured =
                  [this](const std::string& host, double round_trip, double bytes) {
                    options_.tell({{"say", "link"},
                                   {"host", host},
                                   {"round_trip_seconds", round_trip},
                                   {"bytes_per_second", bytes}});
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
  timer_ = loop.every(10, [this] { on_timer(); });
}

std::optional<Landing> Courier::landing(const std::string& host, const net::FrameHead& head) {
  if (head.kind == beat) return beats_.landing(host, head);
  if (head.kind == state) return entrance_.landing(host, head);
  return stage_.landing(host, head);
}

void Courier::on_lost(const std::string& name, const Error& why, bool silent) {
  const Json lost = {{"say", "host_lost"}, {"host", name}, {"why", why.message()}};
  if (!leads_ && links_.tell("", lost)) return;
  if (leads_ && silent) count_silent(name);  // the launcher hears of giving up first, and opens no new stage
  options_.tell(lost);
}

// A silent host may live, together with other living hosts. Such hosts may be a majority and take over, once this
// host's launcher has released the run directory's lock.
void Courier::count_silent(const std::string& name) {
  const std::optional<HostPlan>& last = holding_.last_stage();
  if (!last || gave_up_ || std::ranges::find(last->hosts, name, &HostShare::name) == last->hosts.end()) return;
  silent_.insert(name);
  const auto see_the_run = std::ranges::count_if(
      last->hosts, [&](const HostShare& host) { return host.sees_run && silent_.contains(host.name); });
  if (!must_give_up(last->hosts.size(), silent_.size(), static_cast<size_t>(see_the_run))) return;
  gave_up_ = true;
  abort_stage();
  const Error error = Error::make(Fault::interrupted, "this host is cut off from {} of the job's {} hosts",
                                  silent_.size(), last->hosts.size())
                          .advise("the others go on if they can; else: estrain train --resume");
  Json words = words_of(error);
  words["gives_up"] = true;
  options_.tell(words);
}

Json Courier::words_of(const Error& error) const {
  Json words = codec::fields_of(comm::Failed(error));
  words["say"] = "error";
  words["host"] = options_.own.host;
  return words;
}

void Courier::fail(const Error& error) {
  const Json words = words_of(error);
  if (leads_) return options_.tell(words);
  links_.tell("", words);
}

void Courier::begin_stage(HostPlan plan) {
  beats_.begin_stage();
  entrance_.begin(std::move(plan));
}

void Courier::end_run(bool goes_on) {
  if (!gave_up_) links_.tell_all({{"do", "end"}, {"goes_on", goes_on}});
}

void Courier::on_message(const std::string& from, const Json& said) {
  if (leads_) return hear_host(from, said);
  if (said.value("say", "") == "orphan") {
    Json told = said;
    told["host"] = from;
    return options_.tell(told);
  }
  if (from.empty()) hear_coordinator(said);  // only the coordinator gives orders
}

void Courier::hear_host(const std::string& from, const Json& said) {
  const std::string say = said.value("say", "");
  if (entrance_.hear(from, said)) return;
  if (say == "leaves") {
    links_.drop(from, Error(Fault::peer, "it has let go of this host"), true);
  } else if (say == "host_lost" || say == "error") {
    options_.tell(said);
  } else if (say == "received_state") {
    Json told = said;
    told["host"] = from;
    options_.tell(told);
  } else if (say == "pace") {
    options_.tell({{"say", say}, {"host", from}, {"exchange_seconds", said.value("exchange_seconds", 0.0)}});
  }
}

void Courier::hear_coordinator(const Json& said) {
  const std::string verb = said.value("do", "");
  if (entrance_.hear("", said)) return;
  if (verb == "stage") {
    try {
      entrance_.follow(HostPlan::from_json(said.at("plan")), said);
    } catch (const Error& error) {
      fail(error.within("host " + options_.own.host));
    }
  } else if (verb == "abort") {
    hear_abort(said.value("stage", uint64_t{0}));
  } else if (verb == "end") {
    options_.tell({{"say", "end"}, {"goes_on", said.value("goes_on", false)}});
  }
}

void Courier::hear_abort(uint64_t stage) {
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
  links_.tell("", {{"say", "opened"}, {"stage", plan.stage}});
  if (options_.opened) options_.opened(plan.stage);
  if (leads_) beats_.send();  // other hosts know the run's files as of the order, not as of now
  links_.retry();
  stage_.serve_workers();
}

void Courier::abort_stage() {
  if (stage_.abort() && leads_) tell_abort(stage_.number());
}

void Courier::tell_abort(uint64_t stage) { links_.tell_all({{"do", "abort"}, {"stage", stage}}); }

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
  entrance_.look(monotonic_ns());
  stage_.serve_workers();
  beats_.send_in_time();
  if (ticks_++ % kTicksBetweenPaces == 0) tell_pace();
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
  const StepExchange::Pace pace = stage_.take_pace();
  if (pace.exchanges == 0) return;
  const Json said = {{"say", "pace"},
                     {"host", options_.own.host},
                     {"exchange_seconds", seconds(pace.ns) / static_cast<double>(pace.exchanges)}};
  if (leads_) return options_.tell(said);
  links_.tell("", said);
}

}  // namespace estrain::hosts
