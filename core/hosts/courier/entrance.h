#pragma once
// Brings hosts into a stage. The coordinator sends its plan to all, and the state to hosts that lack it. Each host
// opens the stage when it has the state and reaches all others, the coordinator last (PROTOCOL.md, "A stage").

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "core/hosts/courier/holding.h"
#include "core/hosts/courier/host_links.h"
#include "core/hosts/courier/running_stage.h"
#include "core/hosts/exchange/inflow.h"

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
  // A frame of the state.
  Landing landing(const std::string& host, const net::FrameHead& head);
  void try_open();
  // The stage never opens here.
  void give_up() { opening_.reset(); }

  const HostPlan* plan() const { return opening_ ? &opening_->plan : nullptr; }  // null: none is being opened
  bool receives_state() const { return opening_ && opening_->asked_for_state && !opening_->has_state; }

 private:
  struct Opening {
    HostPlan plan;
    Inflow state;  // of the coordinator's, where it is needed
    bool asked_for_state = false;
    bool has_state = false;
    bool told = false;             // the coordinator's: all hosts have the plan
    std::set<std::string> opened;  // the coordinator's: the hosts that have opened the stage
    double lr = 0;
    int64_t evaluated = -1;
  };

  void reach(const HostShare& host);
  bool reaches_all() const;
  void tell_plan();
  void send_state(const std::string& to);
  void take_state();

  HostLinks& links_;
  Holding& holding_;
  RunningStage& stage_;
  const bool leads_;
  const std::function<void(const HostPlan&)> opened_;
  std::optional<Opening> opening_;
};

}  // namespace estrain::hosts
