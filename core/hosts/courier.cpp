#include "core/hosts/courier.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/comm/stage_control.h"
#include "core/hosts/agents/job_facts.h"
#include "core/hosts/beats.h"
#include "core/hosts/courier_link.h"
#include "core/hosts/exchange/message_link.h"
#include "core/hosts/setup.h"
#include "core/hosts/succession/succession.h"

namespace estrain::hosts {
namespace {

constexpr int kFarewellMs = 200;  // until a last message has left
constexpr size_t kMostBytesBeforeBeats = 1 << 20;
constexpr int kTicksBetweenPaces = 100;
// Agents keep records until they are in the run's files: they hear of it at least so often, in steps.
constexpr int64_t kRecordsBetweenBeats = comm::records_of_ring / 8;

}  // namespace

// Hosts that have come to different bits end the run.
template <typename Act>
void Courier::attempt(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.fault() != Fault::mismatch) throw;
    fail(error);
  }
}

Courier::Courier(net::Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {
  bell_ = loop_.watch(options_.doorbell, [this] {
    uint64_t rung;
    (void)!::read(options_.doorbell, &rung, sizeof rung);
    serve_workers();
  });
  timer_ = loop_.every(10, [this] { on_timer(); });
}

Courier::~Courier() {
  for (auto& [name, link] : links_) link->connection->close();
}

comm::JobMemory& Courier::memory() {
  if (!memory_) memory_ = std::make_unique<comm::JobMemory>(options_.memory);
  if (!memory_->is_ready()) throw Error(Fault::peer, "the job's memory on this host does not stand yet");
  memory_->wait_ready(0);  // maps all of it
  return *memory_;
}

Courier::Link* Courier::link_to(const std::string& name) const {
  const auto at = links_.find(name);
  return at == links_.end() ? nullptr : at->second.get();
}

std::optional<size_t> Courier::index_of(const std::string& name) const {
  if (!exchange_) return std::nullopt;
  const std::vector<HostShare>& hosts = exchange_->plan().hosts;
  const auto at = std::ranges::find(hosts, name, &HostShare::name);
  if (at == hosts.end() || exchange_->plan().here().name == name) return std::nullopt;
  return static_cast<size_t>(at - hosts.begin());
}

// Connections.

void Courier::reach(const HostShare& host, bool clear) {
  if (link_to(host.name) != nullptr || std::exchange(reaching_[host.name], true)) return;
  net::Greeting own = options_.own;
  own.purpose = "courier";
  own.clear = clear;
  net::connect(loop_, options_.key, {net::parse_address(host.address), options_.from, own},
               [this, name = host.name](net::ConnectionPtr connection, const Error* why) {
                 reaching_[name] = false;
                 if (why != nullptr) return lose(name, *why, false);
                 add(std::move(connection), name);
               });
}

void Courier::take(net::ConnectionPtr connection) {
  const std::string name = connection->peer().host;
  if (Link* old = link_to(name)) {  // it came anew: what it said before is over
    old->connection->close();
    links_.erase(name);
  }
  add(std::move(connection), name);
}

void Courier::add(net::ConnectionPtr connection, const std::string& name) {
  if (retired_) return connection->close();
  auto& link = links_[name] = std::make_unique<Link>(*this, connection, name);
  connection->start(*link, [this, name, weak = std::weak_ptr(connection)](const Error& why) {
    const auto lost = weak.lock();
    if (const Link* now = link_to(name); lost && now != nullptr && now->connection == lost)
      lose(name, why, !lost->ended_by_peer());
  });
  if (leads()) link->measure();
  try_open();
  serve_workers();
}

// Called from within the link's own callbacks, too: the link goes a moment later.
void Courier::lose(const std::string name, const Error& why, bool silent) {
  if (retired_) return;
  if (own_pause_.is_recent()) silent = true;
  if (const auto at = links_.find(name); at != links_.end()) {
    at->second->connection->close();
    loop_.drop_later(std::move(at->second));
    links_.erase(at);
  }
  const Json lost = {{"say", "host_lost"}, {"host", name}, {"why", why.message()}};
  if (!leads()) {
    if (Link* coordinator = link_to("")) {
      send_message(*coordinator->connection, lost);
      return;
    }
  }
  options_.tell(lost);
  if (leads() && silent) count_silent(name);
}

// A host that is silent may live, and be with others that live. If they may be a majority, they may lead on, once this
// host's launcher has left the run directory's lock.
void Courier::count_silent(const std::string& name) {
  if (!last_stage_ || gave_up_ ||
      std::ranges::find(last_stage_->hosts, name, &HostShare::name) == last_stage_->hosts.end())
    return;
  silent_.insert(name);
  if (!must_give_up(last_stage_->hosts.size(), silent_.size())) return;
  gave_up_ = true;
  abort_stage();
  const Error error = Error::make(Fault::interrupted, "this host is cut off from {} of the job's {} hosts",
                                  silent_.size(), last_stage_->hosts.size())
                          .advise("the others go on if they can; else: estrain train --resume");
  Json words = words_of(error);
  words["gives_up"] = true;
  options_.tell(words);
}

std::set<std::string> Courier::connected() const {
  std::set<std::string> names;
  for (const auto& [name, link] : links_) names.insert(name);
  return names;
}

Json Courier::words_of(const Error& error) const {
  Json words = told(error);
  words["host"] = options_.own.host;
  return words;
}

void Courier::fail(const Error& error) {
  const Json words = words_of(error);
  if (leads()) return options_.tell(words);
  if (Link* coordinator = link_to("")) send_message(*coordinator->connection, words);
}

void Courier::send(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) {
  if (Link* link = link_to(exchange_->plan().hosts[host].name)) link->connection->send_from(head, bytes);
}

void Courier::send_copy(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) {
  if (Link* link = link_to(exchange_->plan().hosts[host].name))
    link->connection->send(head, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// Stages.

void Courier::begin_stage(HostPlan plan) {
  memory();
  exchange_.reset();
  aborted_ = false;
  counted_begun_ = false;
  opening_.emplace();
  opening_->plan = std::move(plan);
  opening_->has_state = true;
  for (const HostShare& host : opening_->plan.hosts) {
    if (!host.name.empty()) reach(host, opening_->plan.clear);
  }
  try_open();
}

void Courier::end_run() {
  if (gave_up_) return;
  for (auto& [name, link] : links_) send_message(*link->connection, {{"do", "end"}});
}

void Courier::on_message(const std::string& from, const Json& said) {
  if (link_to(from) == nullptr) return;
  const std::string say = said.value("say", ""), verb = said.value("do", "");
  if (leads()) {
    if (say == "leaves") return lose(from, Error(Fault::peer, "it has let go of this host"), true);
    if (say == "need_state") return send_state(from);
    if (say == "opened" && opening_ && said.value("stage", uint64_t{0}) == opening_->plan.stage) {
      opening_->opened.insert(from);
      return try_open();
    }
    if (say == "host_lost" || say == "error") return options_.tell(said);
    if (say == "pace")
      return options_.tell({{"say", say}, {"host", from}, {"exchange_seconds", said.value("exchange_seconds", 0.0)}});
    return;
  }
  if (say == "orphan") {
    Json told = said;
    told["host"] = from;
    return options_.tell(told);
  }
  if (!from.empty()) return;  // the coordinator alone gives orders
  if (verb == "stage") {
    try {
      follow(HostPlan::from_json(said.at("plan")), said);
    } catch (const Error& error) {
      fail(error.within("host " + options_.own.host));
    }
  } else if (verb == "state" && opening_ && opening_->asked_for_state) {
    opening_->lr = said.value("lr", 0.0);
    opening_->evaluated = said.value("evaluated", INT64_C(-1));
  } else if (verb == "abort") {
    const uint64_t stage = said.value("stage", uint64_t{0});
    if (opening_ && opening_->plan.stage == stage) {
      opening_.reset();
      options_.aborted(stage);
    } else if (exchange_ && exchange_->plan().stage == stage) {
      abort_stage();
    } else if (!exchange_ || exchange_->plan().stage < stage) {
      options_.aborted(stage);  // it ended before its plan was sent
    }
  } else if (verb == "end") {
    options_.tell({{"say", "end"}});
  }
}

// The coordinator's word: no worker of this host is in its loop any more.
void Courier::follow(HostPlan plan, const Json& said) {
  require_same_facts(said.value("facts", Json::object()), facts_of(memory()), plan.any_processor);
  records_.note(said.value("recorded", INT64_C(-1)));
  exchange_.reset();
  aborted_ = false;
  comm::StageControl(memory()).repair();
  opening_.emplace();
  opening_->plan = std::move(plan);
  const HostPlan& now = opening_->plan;
  opening_->has_state = has_state_of(now.step);
  if (!opening_->has_state) {
    opening_->asked_for_state = true;
    opening_->state = Inflow(SharedParts(memory(), now).state(now.step));
    if (Link* coordinator = link_to("")) send_message(*coordinator->connection, {{"say", "need_state"}});
  }
  for (size_t host = now.own + 1; host < now.hosts.size(); ++host) {
    if (!now.hosts[host].name.empty()) reach(now.hosts[host], now.clear);
  }
  try_open();
}

bool Courier::has_state_of(int64_t step) { return has_trained_ && memory().commit().committed() == Step(step); }

// Sends the committed copy. Nobody writes to it before all hosts, the receiver among them, have committed the next
// step.
void Courier::send_state(const std::string& to) {
  Link* link = link_to(to);
  if (link == nullptr || (!exchange_ && !opening_)) return;
  const HostPlan& plan = exchange_ ? exchange_->plan() : opening_->plan;
  const comm::CommitWord word = memory().commit();
  send_message(*link->connection,
               {{"do", "state"}, {"lr", word.lr(Step(plan.step))}, {"evaluated", word.evaluated().value}});
  const Places places = SharedParts(memory(), plan).state(plan.step);
  cut_into_frames(state, round_number(plan.stage, plan.step), {places[0]},
                  [&](const net::FrameHead& frame, std::span<const std::byte> bytes) {
                    link->connection->send_from(frame, bytes);
                  });
}

void Courier::take_state() {
  memory().hosts().forget_agreement();
  memory().commit().begin_at(Step(opening_->plan.step), opening_->lr);
  memory().commit().note_evaluated(Step(opening_->evaluated));
  opening_->has_state = true;
  try_open();
}

bool Courier::reaches_all(const HostPlan& plan) const {
  return std::ranges::all_of(
      plan.hosts, [&](const HostShare& host) { return &host == &plan.here() || link_to(host.name) != nullptr; });
}

// Once the state is here and all other hosts are reached. The coordinator is the last to open: what it sends in the
// stage would stand before the state that others wait for.
void Courier::try_open() {
  if (!opening_ || !opening_->has_state || !reaches_all(opening_->plan)) return;
  if (!leads()) return open();
  if (!std::exchange(opening_->told, true)) tell_plan();
  if (opening_->opened.size() + 1 == opening_->plan.hosts.size()) open();
}

void Courier::tell_plan() {
  HostPlan theirs = opening_->plan;
  for (theirs.own = 1; theirs.own < theirs.hosts.size(); ++theirs.own) {
    send_message(*link_to(theirs.here().name)->connection, {{"do", "stage"},
                                                            {"plan", theirs.to_json()},
                                                            {"facts", facts_of(memory())},
                                                            {"recorded", step_of_files(memory(), theirs.step)}});
  }
}

void Courier::open() {
  const HostPlan plan = std::exchange(opening_, std::nullopt)->plan;
  if (!leads()) comm::StageControl(memory()).open();
  has_trained_ = true;
  last_stage_ = plan;
  silent_.clear();
  asked_ = memory().hosts().answered();
  exchange_ = std::make_shared<StepExchange>(memory(), plan, static_cast<Outbox&>(*this));
  if (!leads()) send_message(*link_to("")->connection, {{"say", "opened"}, {"stage", plan.stage}});
  if (options_.opened) options_.opened(plan.stage);
  if (leads()) send_beats();  // its hosts know what the run's files had when they were told of the stage, not now
  for (auto& [name, link] : links_) link->connection->retry();
  serve_workers();
}

void Courier::abort_stage() {
  if (aborted_ || !exchange_) return;
  aborted_ = true;
  comm::StageControl(memory()).abort();
  if (leads()) tell_abort(exchange_->plan().stage);
}

// After the coordinator is lost.

void Courier::leave_coordinator() {
  abort_stage();
  const auto at = links_.find("");
  if (at == links_.end()) return;
  send_message(*at->second->connection, {{"say", "leaves"}});
  farewell_ = std::move(at->second);
  links_.erase(at);
  farewell_end_ = loop_.once(kFarewellMs, [this] { farewell_->connection->close(); });
}

int64_t Courier::put_in_order() {
  if (exchange_) exchange_->keep_whole_step();
  comm::StageControl(memory()).repair();
  return memory().commit().committed().value;
}

const HostPlan* Courier::last_plan() const {
  if (last_stage_) return &*last_stage_;
  return opening_ ? &opening_->plan : nullptr;
}

bool Courier::is_fit() {
  if (!last_stage_) return false;
  return hosts::is_fit({.opened_a_stage = true,
                        .receives_state = opening_ && opening_->asked_for_state && !opening_->has_state,
                        .records_from = records_from(),
                        .recorded = records_.written()});
}

int64_t Courier::records_from() { return first_record(memory()); }

void Courier::note_recorded(int64_t step) {
  records_.note(step);
  if (exchange_) records_.let_go(memory());
}

void Courier::tell_others(const Json& message) {
  for (auto& [name, link] : links_) send_message(*link->connection, message);
}

void Courier::retire() {
  retired_ = true;
  bell_.reset();
  timer_.reset();
  farewell_end_.reset();
  if (farewell_) farewell_->connection->close();
  for (auto& [name, link] : links_) link->connection->close();
  links_.clear();
  opening_.reset();
  exchange_.reset();
  memory_.reset();
}

void Courier::tell_abort(uint64_t stage) {
  for (auto& [name, link] : links_) send_message(*link->connection, {{"do", "abort"}, {"stage", stage}});
}

// Workers.

void Courier::serve_workers() {
  if (!exchange_ || aborted_) return;
  take_request();
  work();
}

void Courier::take_request() {
  const comm::HostRequest request = memory().hosts().open_request();
  if (request.what == comm::HostAsk::nothing || request.sequence == asked_) return;
  asked_ = request.sequence;
  attempt([&] { exchange_->ask(request); });
}

// Bit by bit: what has been computed leaves in between.
void Courier::work() {
  if (works_ || !exchange_ || aborted_) return;
  attempt([&] { works_ = exchange_->work(); });
  if (!works_) return;
  loop_.post([this] {
    works_ = false;
    work();
  });
}

void Courier::on_timer() {
  const int64_t now = monotonic_ns();
  if (own_pause_.tick()) {  // nobody's silence during the pause counts
    for (auto& [name, link] : links_) link->heard_ns = now;
  }
  // The launcher alone aborts; a stage that was not open yet never opens.
  if (leads() && memory_ && memory_->gate().aborted()) {
    if (opening_) {
      tell_abort(opening_->plan.stage);
      opening_.reset();
    } else {
      abort_stage();
    }
  }
  serve_workers();
  send_beats_in_time();
  if (ticks_ % kTicksBetweenPaces == 0) tell_pace();
  for (const auto& [name, link] : links_) {
    if (link->waits || now - link->heard_ns <= silence_ns) continue;
    lose(name, Error::make(Fault::peer, "it has been silent for {:.1f} s", seconds(now - link->heard_ns)), true);
    return;
  }
}

void Courier::tell_pace() {
  const StepExchange::Pace pace = exchange_ ? exchange_->take_pace() : StepExchange::Pace{};
  if (pace.exchanges == 0) return;
  const Json said = {{"say", "pace"},
                     {"host", options_.own.host},
                     {"exchange_seconds", seconds(pace.ns) / static_cast<double>(pace.exchanges)}};
  if (leads()) return options_.tell(said);
  if (Link* coordinator = link_to("")) send_message(*coordinator->connection, said);
}

// The step up to which the run's files have all records, as far as it is known here.
int64_t Courier::step_of_records() {
  return leads() && exchange_ ? step_of_files(memory(), exchange_->plan().step) : -1;
}

// Sooner than usual where many records have been written.
void Courier::send_beats_in_time() {
  static constexpr int kTicks = beat_milliseconds / 10;
  if (++ticks_ % kTicks == 0 || step_of_records() >= records_.written() + kRecordsBetweenBeats) send_beats();
}

void Courier::send_beats() {
  const int64_t written = step_of_records();
  if (leads()) records_.note(written);
  const uint64_t stage = exchange_ ? exchange_->plan().stage : 0;
  const std::string bytes = !leads() && exchange_ ? beats_of_own_workers(memory(), exchange_->plan()) : "";
  for (auto& [name, link] : links_) {
    if (link->connection->bytes_waiting() > kMostBytesBeforeBeats) continue;
    const std::string own = name.empty() ? bytes : "";
    const uint64_t offset = written < 0 ? 0 : static_cast<uint64_t>(written);
    link->connection->send({beat, static_cast<uint32_t>(own.size()), stage, offset}, own);
  }
}

void Courier::take_beats(size_t host, std::span<const WorkerBeat> beats) {
  if (!leads() || aborted_) return;
  hosts::take_beats(memory(), exchange_->plan(), host, beats);
  if (counted_begun_ || exchange_->workers_begun() == 0) return;
  const int64_t elsewhere = workers_elsewhere(exchange_->plan());
  if (exchange_->workers_begun() < elsewhere) return;
  counted_begun_ = true;
  const int64_t now = monotonic_ns();
  for (int64_t worker = 0; worker < elsewhere; ++worker) memory().gate().note_started(now);
}

}  // namespace estrain::hosts
