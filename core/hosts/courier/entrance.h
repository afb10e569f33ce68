#pragma once
// Brings hosts into a stage. The coordinator sends its plan to all, and the state to hosts that lack it. Each host
// opens the stage when it has the state and reaches all others, the coordinator last (PROTOCOL.md, "A stage").
//
// Where hosts join that were not in the last stage, the state comes from all that have it, a share from each. Then
// every host first says whether it has it, and the coordinator tells all who sends to whom. Nobody opens the stage
// before its own shares are on their way: what it sends in the stage would stand before them.
//
// An opening has a time limit (opening_patience.h).

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/hosts/courier/holding.h"
#include "core/hosts/courier/host_links.h"
#include "core/hosts/courier/opening_patience.h"
#include "core/hosts/courier/running_stage.h"
#include "core/hosts/exchange/inflow.h"
#include "core/hosts/exchange/state_shares.h"

namespace estrain::hosts {

class Entrance {
 public:
  Entrance(HostLinks& links, Holding& holding, RunningStage& stage, bool leads,
           std::function<void(const HostPlan&)> opened)
      : links_(links), holding_(holding), stage_(stage), leads_(leads), opened_(std::move(opened)) {}

  // No worker of this host is in its loop. The coordinator's:
  void begin(HostPlan plan);
  // The others'. Throws Fault::mismatch or Fault::infeasible where this host cannot be in the job.
  void follow(HostPlan plan, const Json& said);
  // False: the message is about something else.
  bool hear(const std::string& from, const Json& said);
  // A frame of the state. Nothing: who sends it is not known yet.
  std::optional<Landing> landing(const std::string& host, const net::FrameHead& head);
  void try_open();
  // Called every 10 ms. The others tell the coordinator now and then what they wait for; the coordinator drops a host
  // that keeps the stage from opening.
  void look(int64_t now_ns);
  // The stage never opens here.
  void give_up();

  const HostPlan* plan() const { return opening_ ? &opening_->plan : nullptr; }  // null: none is being opened
  bool receives_state() const { return opening_ && opening_->asked_for_state && !opening_->has_state; }

 private:
  struct Opening {
    HostPlan plan;
    bool in_shares = false;               // nobody opens before it is told who sends the state to whom
    std::optional<StateShares> shares;    // as told
    std::map<std::string, Inflow> state;  // by its sender, where it is needed
    std::vector<std::string> to_send;     // hosts to which the own share has not been sent
    bool asked_for_state = false;
    bool has_state = false;
    // The coordinator's: all hosts have the plan; whether a host has the state; the hosts that have opened the stage.
    bool told = false;
    std::map<std::string, bool> has;
    std::set<std::string> opened;
    std::optional<OpeningPatience> patience;
    int64_t said_ns = 0;  // the others': when they told what they wait for
  };

  void reach(const HostShare& host);
  bool reaches_all() const;
  OpeningWait waits_for() const;
  void tell_plan();
  bool comes_in_shares(const HostPlan& plan) const;
  void hear_of_state(const std::string& from, bool has_state);
  void tell_shares(StateShares shares);
  void take_shares(const Json& said);
  bool send_share(const std::string& to, const StateShares& shares);
  void receive(const std::string& from, const net::FrameHead& head);
  void take_state();

  HostLinks& links_;
  Holding& holding_;
  RunningStage& stage_;
  const bool leads_;
  const std::function<void(const HostPlan&)> opened_;
  std::optional<Opening> opening_;
};

}  // namespace estrain::hosts
