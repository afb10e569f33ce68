#include "core/hosts/courier/entrance.h"

#include <algorithm>
#include <utility>

#include "core/hosts/agents/job_facts.h"
#include "core/state/comm/stage_control.h"

namespace estrain::hosts {
namespace {

constexpr Nanoseconds kBetweenWords = 1s;

}  // namespace

void Entrance::begin(HostPlan plan) {
  holding_.memory();
  stage_.forget();
  opening_ = Opening();
  opening_->plan = std::move(plan);
  opening_->has_state = true;
  opening_->in_shares = comes_in_shares(opening_->plan);
  std::vector<std::string> others;
  for (const HostShare& host : opening_->plan.hosts) {
    if (!host.name.empty()) others.push_back(host.name);
  }
  opening_->patience.emplace(std::move(others));
  for (const HostShare& host : opening_->plan.hosts) reach(host);
  try_open();
}

// Returns true if a host joins that was not in the last stage, while two or more hosts of the last stage stay.
bool Entrance::comes_in_shares(const HostPlan& plan) const {
  const std::optional<HostPlan>& last = holding_.last_stage();
  if (!last) return false;
  const auto stays = std::ranges::count_if(plan.hosts, [&](const HostShare& host) {
    return std::ranges::find(last->hosts, host.name, &HostShare::name) != last->hosts.end();
  });
  return stays > 1 && stays < std::ssize(plan.hosts);
}

void Entrance::reach(const HostShare& host) {
  if (!host.name.empty()) links_.reach(host.name, host.address, opening_->plan.clear);
}

void Entrance::follow(const EnterStage& said) {
  said.plan.require_sound();
  comm::JobMemory& memory = holding_.memory();
  require_same_facts(said.facts, facts_of(memory), said.plan.any_processor);
  holding_.records().note(said.recorded);
  stage_.forget();
  comm::StageControl(memory).repair();
  opening_ = Opening();
  opening_->plan = said.plan;
  const HostPlan& now = opening_->plan;
  // A host lost during an evaluation may have sent its part to few hosts only: all hosts must know the same evaluation.
  const bool knows_the_same = memory.commit().evaluated() == Step(said.evaluated);
  opening_->has_state = holding_.has_state_of(now.step) && knows_the_same;
  opening_->asked_for_state = !opening_->has_state;
  opening_->in_shares = said.in_shares;
  if (opening_->in_shares || opening_->asked_for_state) links_.tell("", SaysHasState{now.stage, opening_->has_state});
  links_.retry();  // frames of a stage before
  for (size_t host = now.own + 1; host < now.hosts.size(); ++host) reach(now.hosts[host]);
  try_open();
}

void Entrance::hear(const std::string& from, const StageOpened& said) {
  if (!is_of_this(said.stage)) return;
  opening_->opened.insert(from);
  opening_->patience->note_opened(from);
  try_open();
}

void Entrance::hear(const std::string& from, const SaysWaits& said) {
  if (is_of_this(said.stage)) opening_->patience->hear(from, said.wait);
}

void Entrance::hear(const TellShares& said) {
  if (is_of_this(said.stage) && !opening_->shares) take_shares(said.shares);
}

void Entrance::hear(const std::string& from, const SaysHasState& said) {
  if (!is_of_this(said.stage)) return;
  StateShares shares{.from = {""}, .to = {}};
  if (!opening_->in_shares) {
    shares.to = {from};
    return tell_shares(std::move(shares));
  }
  opening_->has[from] = said.has;
  if (opening_->has.size() + 1 < opening_->plan.hosts.size()) return;
  for (const HostShare& host : opening_->plan.hosts) {
    if (!host.name.empty()) (opening_->has[host.name] ? shares.from : shares.to).push_back(host.name);
  }
  tell_shares(std::move(shares));
}

// If the state comes in shares, hosts with the state hear this word, too: they send a share, or wait for this word.
void Entrance::tell_shares(StateShares shares) {
  const comm::CommitWord word = holding_.memory().commit();
  shares.lr = word.lr(Step(opening_->plan.step));
  shares.evaluated = word.evaluated().value;
  const TellShares said{opening_->plan.stage, shares};
  for (const HostShare& host : opening_->plan.hosts) {
    const bool hears = opening_->in_shares || std::ranges::find(shares.to, host.name) != shares.to.end();
    if (!host.name.empty() && hears) links_.tell(host.name, said);
  }
  for (const std::string& to : shares.to) send_share(to, shares);
  opening_->shares = std::move(shares);
  try_open();
}

void Entrance::take_shares(const StateShares& shares) {
  shares.require_sender();
  opening_->shares = shares;
  const HostPlan& plan = opening_->plan;
  if (opening_->has_state && std::ranges::find(shares.from, plan.here().name) != shares.from.end())
    opening_->to_send = shares.to;
  if (opening_->asked_for_state) {
    const std::span<std::byte> whole = SharedParts(holding_.memory(), plan).state(plan.step)[0];
    for (size_t place = 0; place < shares.from.size(); ++place) {
      const ByteRange range = state_share(whole.size(), shares.from.size(), place);
      opening_->state[shares.from[place]] = Inflow({whole.subspan(range.begin, range.end - range.begin)});
    }
  }
  links_.retry();  // frames that came before this word
  try_open();
}

// Sends this host's share of the committed copy. No host writes to this copy before all hosts, including the receiver,
// have committed the next step. Returns false if the receiver is not connected yet.
bool Entrance::send_share(const std::string& to, const StateShares& shares) {
  net::Connection* connection = links_.to(to);
  const HostPlan& plan = opening_->plan;
  const auto own = std::ranges::find(shares.from, plan.own == 0 ? "" : plan.here().name);
  if (connection == nullptr || own == shares.from.end()) return false;
  const std::span<const std::byte> whole = SharedParts(holding_.memory(), plan).state(plan.step)[0];
  const ByteRange range = state_share(whole.size(), shares.from.size(), static_cast<size_t>(own - shares.from.begin()));
  cut_into_frames(
      state, round_number(plan.stage, plan.step), {whole.subspan(range.begin, range.end - range.begin)},
      [&](const net::FrameHead& frame, std::span<const std::byte> bytes) { connection->send_from(frame, bytes); });
  return true;
}

std::optional<Landing> Entrance::landing(const std::string& host, const net::FrameHead& head) {
  const bool wanted = receives_state() && head.number == round_number(opening_->plan.stage, opening_->plan.step);
  if (!wanted) return Landing{};
  if (!opening_->shares) return std::nullopt;
  const auto share = opening_->state.find(host);
  if (share == opening_->state.end()) return Landing{};
  return Landing{share->second.room_for(head), [this, host, head] { receive(host, head); }};
}

void Entrance::receive(const std::string& from, const net::FrameHead& head) {
  if (!receives_state() || head.number != round_number(opening_->plan.stage, opening_->plan.step)) return;
  opening_->state.at(from).received(head);
  if (std::ranges::all_of(opening_->state, [](const auto& share) { return share.second.complete(); })) take_state();
}

void Entrance::take_state() {
  comm::JobMemory& memory = holding_.memory();
  memory.hosts().forget_agreement();
  memory.commit().begin_at(Step(opening_->plan.step), opening_->shares->lr);
  memory.commit().note_evaluated(Step(opening_->shares->evaluated));
  opening_->has_state = true;
  ReceivedState received{.host = opening_->plan.here().name, .step = opening_->plan.step};
  for (const auto& [sender, share] : opening_->state) received.shares.bytes[sender] = share.bytes();
  links_.tell("", received);
  try_open();
}

// Returns the reasons why this host does not open the stage. For the coordinator: the hosts that delay the next word.
OpeningWait Entrance::waits_for() const {
  OpeningWait wait;
  const HostPlan& plan = opening_->plan;
  const bool asks_all = leads_ && opening_->told && opening_->in_shares && !opening_->shares;
  for (const HostShare& host : plan.hosts) {
    const bool owes_word = asks_all && !opening_->has.contains(host.name);
    if (&host != &plan.here() && (links_.to(host.name) == nullptr || owes_word)) wait.hosts.push_back(host.name);
  }
  if (leads_) return wait;
  const bool needs_word = (opening_->asked_for_state || opening_->in_shares) && !opening_->shares;
  if (needs_word) wait.hosts.emplace_back();
  for (const auto& [sender, share] : opening_->state) {
    wait.bytes += share.bytes() + links_.state_arriving(sender);
    const bool is_named = std::ranges::find(wait.hosts, sender) != wait.hosts.end();
    if (!share.complete() && !is_named) wait.hosts.push_back(sender);
  }
  return wait;
}

void Entrance::look(MonotonicTime now) {
  if (!opening_) return;
  if (!leads_) {
    if (now - opening_->said < kBetweenWords) return;
    opening_->said = now;
    links_.tell("", SaysWaits{opening_->plan.stage, waits_for()});
    return;
  }
  opening_->patience->hear("", waits_for());
  const auto late = opening_->patience->look(now);
  if (late) links_.drop(late->host, Error(Fault::peer, late->why), true);  // the host may live
}

// Looks again at frames that wait for this opening, and drops them.
void Entrance::give_up() {
  opening_.reset();
  links_.retry();
}

bool Entrance::reaches_all() const {
  return std::ranges::all_of(opening_->plan.hosts, [&](const HostShare& host) {
    return &host == &opening_->plan.here() || links_.to(host.name) != nullptr;
  });
}

// Opens the stage once the state is complete and all hosts are connected. The coordinator opens last: the coordinator's
// frames of the stage would stand before the state that another host waits for.
void Entrance::try_open() {
  if (opening_)
    std::erase_if(opening_->to_send, [&](const std::string& to) { return send_share(to, *opening_->shares); });
  if (!opening_ || !opening_->to_send.empty() || !opening_->has_state || !reaches_all()) return;
  if (leads_ && !std::exchange(opening_->told, true)) tell_plan();
  if (opening_->in_shares && !opening_->shares) return;
  if (leads_ && opening_->opened.size() + 1 < opening_->plan.hosts.size()) return;
  opened_(std::exchange(opening_, std::nullopt)->plan);
}

void Entrance::tell_plan() {
  comm::JobMemory& memory = holding_.memory();
  EnterStage said{.plan = opening_->plan,
                  .facts = facts_of(memory),
                  .recorded = step_of_files(memory, opening_->plan.step),
                  .in_shares = opening_->in_shares,
                  .evaluated = memory.commit().evaluated().value};
  HostPlan& theirs = said.plan;
  for (theirs.own = 1; theirs.own < theirs.hosts.size(); ++theirs.own) links_.tell(theirs.here().name, said);
}

}  // namespace estrain::hosts
