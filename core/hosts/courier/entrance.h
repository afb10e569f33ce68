#pragma once
// Brings hosts into a stage. The coordinator sends the plan to all hosts, and the state to hosts that lack the state.
// Each host opens the stage when it has the state and is connected to all hosts, the coordinator last (PROTOCOL.md).
//
// If a host joins that was not in the last stage, every host with the state sends a share. Every host first says
// whether it has the state. Then the coordinator tells all hosts the senders and receivers. No host opens the stage
// before its own shares are on the way: the frames of the stage would stand before the shares.
//
// An opening has a time limit (opening_patience.h).

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/hosts/courier/courier_messages.h"
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

  // No worker of this host is in its loop. For the coordinator:
  void begin(HostPlan plan);
  // For other hosts. Throws Fault::mismatch or Fault::infeasible if this host cannot be in the job, Fault::corrupt
  // for a plan that does not hold together.
  void follow(const EnterStage& said);
  // Messages of another stage than this opening's are ignored. For the coordinator:
  void hear(const std::string& from, const SaysHasState& said);
  void hear(const std::string& from, const StageOpened& said);
  void hear(const std::string& from, const SaysWaits& said);
  // For other hosts:
  void hear(const TellShares& said);
  // Takes a frame of the state. Returns nothing if the frame's sender is not known yet.
  std::optional<Landing> landing(const std::string& host, const net::FrameHead& head);
  void try_open();
  // Called every 10 ms. Now and then, a host reports the reasons for its wait to the coordinator. The coordinator drops
  // a host that keeps the stage from opening.
  void look(MonotonicTime now);
  // Gives up the opening: the stage never opens on this host.
  void give_up();

  const HostPlan* plan() const { return opening_ ? &opening_->plan : nullptr; }  // null: no stage is being opened
  bool receives_state() const { return opening_ && opening_->asked_for_state && !opening_->has_state; }

 private:
  struct Opening {
    HostPlan plan;
    bool in_shares = false;               // no host opens the stage before hearing the sources of the state
    std::optional<StateShares> shares;    // as told
    std::map<std::string, Inflow> state;  // by sender, on a host without the state
    std::vector<std::string> to_send;     // hosts that still wait for the own share
    bool asked_for_state = false;
    bool has_state = false;
    // The coordinator's: all hosts have the plan; whether a host has the state; the hosts that have opened the stage.
    bool told = false;
    std::map<std::string, bool> has;
    std::set<std::string> opened;
    std::optional<OpeningPatience> patience;
    MonotonicTime said{};  // an agent's: the time of the last report to the coordinator
  };

  void reach(const HostShare& host);
  bool reaches_all() const;
  OpeningWait waits_for() const;
  void tell_plan();
  bool comes_in_shares(const HostPlan& plan) const;
  bool is_of_this(uint64_t stage) const { return opening_ && stage == opening_->plan.stage; }
  void tell_shares(StateShares shares);
  void take_shares(const StateShares& shares);
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
