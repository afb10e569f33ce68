#include "core/hosts/courier/entrance.h"

#include <algorithm>
#include <utility>

#include "core/comm/stage_control.h"
#include "core/hosts/agents/job_facts.h"

namespace estrain::hosts {

void Entrance::begin(HostPlan plan) {
  holding_.memory();
  stage_.forget();
  opening_ = Opening();
  opening_->plan = std::move(plan);
  opening_->has_state = true;
  for (const HostShare& host : opening_->plan.hosts) reach(host);
  try_open();
}

void Entrance::reach(const HostShare& host) {
  if (!host.name.empty()) links_.reach(host.name, host.address, opening_->plan.clear);
}

void Entrance::follow(HostPlan plan, const Json& said) {
  comm::JobMemory& memory = holding_.memory();
  require_same_facts(said.value("facts", Json::object()), facts_of(memory), plan.any_processor);
  holding_.records().note(said.value("recorded", INT64_C(-1)));
  stage_.forget();
  comm::StageControl(memory).repair();
  opening_ = Opening();
  opening_->plan = std::move(plan);
  const HostPlan& now = opening_->plan;
  // A host that was lost in an evaluation may have sent its part to some only: all must know the same of it.
  const bool knows_the_same = memory.commit().evaluated() == Step(said.value("evaluated", INT64_C(-1)));
  opening_->has_state = holding_.has_state_of(now.step) && knows_the_same;
  if (!opening_->has_state) {
    opening_->asked_for_state = true;
    opening_->state = Inflow(SharedParts(memory, now).state(now.step));
    links_.tell("", {{"say", "need_state"}});
  }
  for (size_t host = now.own + 1; host < now.hosts.size(); ++host) reach(now.hosts[host]);
  try_open();
}

bool Entrance::hear(const std::string& from, const Json& said) {
  const std::string say = said.value("say", ""), verb = said.value("do", "");
  if (leads_ && say == "need_state") {
    send_state(from);
  } else if (leads_ && say == "opened") {
    if (!opening_ || said.value("stage", uint64_t{0}) != opening_->plan.stage) return true;
    opening_->opened.insert(from);
    try_open();
  } else if (!leads_ && verb == "state") {
    if (!opening_ || !opening_->asked_for_state) return true;
    opening_->lr = said.value("lr", 0.0);
    opening_->evaluated = said.value("evaluated", INT64_C(-1));
  } else {
    return false;
  }
  return true;
}

// Sends the committed copy. Nobody writes to it before all hosts, the receiver among them, have committed the next
// step.
void Entrance::send_state(const std::string& to) {
  net::Connection* connection = links_.to(to);
  const HostPlan* plan = stage_.plan() != nullptr ? stage_.plan() : this->plan();
  if (connection == nullptr || plan == nullptr) return;
  comm::JobMemory& memory = holding_.memory();
  const comm::CommitWord word = memory.commit();
  send_message(*connection,
               {{"do", "state"}, {"lr", word.lr(Step(plan->step))}, {"evaluated", word.evaluated().value}});
  const Places places = SharedParts(memory, *plan).state(plan->step);
  cut_into_frames(
      state, round_number(plan->stage, plan->step), {places[0]},
      [&](const net::FrameHead& frame, std::span<const std::byte> bytes) { connection->send_from(frame, bytes); });
}

Landing Entrance::landing(const std::string& host, const net::FrameHead& head) {
  const bool wanted = receives_state() && host == opening_->plan.hosts[0].name &&
                      head.number == round_number(opening_->plan.stage, opening_->plan.step);
  if (!wanted) return {};
  return {opening_->state.room_for(head), [this, head] {
            if (!receives_state() || head.number != round_number(opening_->plan.stage, opening_->plan.step)) return;
            opening_->state.received(head);
            if (opening_->state.complete()) take_state();
          }};
}

void Entrance::take_state() {
  comm::JobMemory& memory = holding_.memory();
  memory.hosts().forget_agreement();
  memory.commit().begin_at(Step(opening_->plan.step), opening_->lr);
  memory.commit().note_evaluated(Step(opening_->evaluated));
  opening_->has_state = true;
  try_open();
}

bool Entrance::reaches_all() const {
  return std::ranges::all_of(opening_->plan.hosts, [&](const HostShare& host) {
    return &host == &opening_->plan.here() || links_.to(host.name) != nullptr;
  });
}

// Once the state is here and all other hosts are reached. The coordinator is the last to open: what it sends in the
// stage would stand before the state that others wait for.
void Entrance::try_open() {
  if (!opening_ || !opening_->has_state || !reaches_all()) return;
  if (leads_ && !std::exchange(opening_->told, true)) tell_plan();
  if (leads_ && opening_->opened.size() + 1 < opening_->plan.hosts.size()) return;
  opened_(std::exchange(opening_, std::nullopt)->plan);
}

void Entrance::tell_plan() {
  comm::JobMemory& memory = holding_.memory();
  HostPlan theirs = opening_->plan;
  for (theirs.own = 1; theirs.own < theirs.hosts.size(); ++theirs.own) {
    links_.tell(theirs.here().name, {{"do", "stage"},
                                     {"plan", theirs.to_json()},
                                     {"facts", facts_of(memory)},
                                     {"recorded", step_of_files(memory, theirs.step)},
                                     {"evaluated", memory.commit().evaluated().value}});
  }
}

}  // namespace estrain::hosts
