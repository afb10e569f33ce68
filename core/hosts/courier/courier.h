#pragma once
// The courier of a host is the one process of the host that talks to the couriers of the job's other hosts. The courier
// exchanges the data of the workers' steps (step_exchange.h), opens stages, tells other hosts of an aborted stage,
// sends the state to a joining host, and notices lost hosts. PROTOCOL.md states the rules and why the rules suffice.
//
// The coordinator's courier belongs to the launcher and connects to all other couriers, which belong to the hosts'
// agents. A courier runs entirely in the thread of the loop.

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/hosts/courier/courier_messages.h"
#include "core/hosts/courier/entrance.h"
#include "core/hosts/courier/heartbeats.h"
#include "core/hosts/courier/holding.h"
#include "core/hosts/courier/host_links.h"
#include "core/hosts/courier/running_stage.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

// A host has lost another host. Both may still reach the coordinator.
struct LossReport {
  std::string from;
  LostHost lost;
};
// Returns the hosts without which the job continues, in the order in which they are to go: the host that most reports
// name, of equals the last in `order`; then the same again, without the reports from this host and about this host. If
// two hosts have lost each other, one of the two stays.
std::vector<LostHost> hosts_to_leave(std::vector<LossReport> reports, const std::vector<std::string>& order);

class Courier {
 public:
  struct Options {
    net::SharedKey key;
    net::Greeting own;      // its host: this host's name in plans; "" on the coordinator
    std::string from = {};  // own address of outgoing connections; empty: the system's choice
    int memory = -1;
    int doorbell = -1;  // eventfd by which workers wake the courier
    // Messages to the courier's owner. An agent hears no LinkMeasured, ExchangePace or ReceivedState, the launcher no
    // ClaimHeard.
    std::function<void(const OwnerMessage&)> tell;
    std::function<void(uint64_t stage)> opened;   // workers may begin
    std::function<void(uint64_t stage)> aborted;  // the stage never opened
  };
  Courier(net::Loop& loop, Options options);
  Courier(const Courier&) = delete;

  // For the coordinator: begins a stage. No worker of this host is in its loop.
  void begin_stage(HostPlan plan);
  // For the coordinator: ends the run. `goes_on`: the run resumes in a new launch.
  void end_run(bool goes_on);
  bool gave_up() const { return gave_up_; }  // the coordinator's: other hosts may take over
  HostLinks& links() { return links_; }

  // After a loss of the coordinator:
  //
  // Returns the last stage opened on this host; else the stage that this host was about to open; else null.
  const HostPlan* last_plan() const;
  Holding& holding() { return holding_; }
  // Returns true if the run can resume from this host's memory.
  bool is_fit() { return holding_.is_fit(entrance_.receives_state()); }
  // Aborts the stage. put_in_order() follows once no worker of this host is in its loop.
  void abort_stage();
  int64_t put_in_order();  // returns the step from which the run resumes
  // Stops every activity of the courier. The courier goes by net::Loop::drop_later().
  void retire();

 private:
  void on_lost(const std::string& name, const Error& why, bool silent);
  void count_silent(const std::string& name);
  void judge_reports();
  void fail(const Error& error);
  std::optional<Landing> landing(const std::string& host, const net::FrameHead& head);
  void on_message(const std::string& from, const CourierMessage& said);
  // The coordinator hears another host. A message that is not for the coordinator is ignored.
  void hear_host(const std::string& from, const LeavesCoordinator& said);
  void hear_host(const std::string& from, const LostHost& said);
  void hear_host(const std::string& from, const CourierFailed& said);
  void hear_host(const std::string& from, const ReceivedState& said);
  void hear_host(const std::string& from, const ExchangePace& said);
  template <typename Message>
  void hear_host(const std::string& from, const Message& said) {
    if constexpr (requires { entrance_.hear(from, said); }) entrance_.hear(from, said);
  }
  // Another host hears the coordinator, who alone gives orders.
  void hear_coordinator(const EnterStage& said);
  void hear_coordinator(const StageAborted& said);
  void hear_coordinator(const RunEnds& said);
  template <typename Message>
  void hear_coordinator(const Message& said) {
    if constexpr (requires { entrance_.hear(said); }) entrance_.hear(said);
  }
  void on_opened(const HostPlan& plan);
  void tell_abort(uint64_t stage);
  void on_timer();
  void pass_on_abort();
  void tell_pace();

  Options options_;
  const bool leads_;
  Holding holding_;
  HostLinks links_;
  RunningStage stage_;
  Entrance entrance_;
  Heartbeats beats_;
  // The coordinator's: silent hosts of the stage; reports of other hosts, and when the first came; the hosts that were
  // said to be lost since the last stage began.
  std::set<std::string> silent_;
  std::vector<LossReport> reports_;
  MonotonicTime reported_{};
  std::set<std::string> lost_;
  bool gave_up_ = false;
  int ticks_ = 0;
  std::shared_ptr<net::Loop::Watch> bell_;
  std::shared_ptr<net::Loop::Timer> timer_;
};

}  // namespace estrain::hosts
