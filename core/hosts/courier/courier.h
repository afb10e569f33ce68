#pragma once
// The courier of a host: the one process there that talks to the couriers of the job's other hosts. It exchanges what
// their workers need (step_exchange.h), opens stages, tells others that a stage is aborted, sends the state to a host
// that joins, and notices lost hosts. PROTOCOL.md states the rules and why they suffice.
//
// The coordinator's courier belongs to its launcher and connects to all others; the others' belong to their agents.
// All of it runs in the thread of the loop.

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "core/base/json/json.h"
#include "core/hosts/courier/entrance.h"
#include "core/hosts/courier/heartbeats.h"
#include "core/hosts/courier/holding.h"
#include "core/hosts/courier/host_links.h"
#include "core/hosts/courier/running_stage.h"
#include "core/hosts/net/connection.h"

namespace estrain::hosts {

class Courier {
 public:
  struct Options {
    net::Key key;
    net::Greeting own;      // its host: the name by which the plans call this one; "" on the coordinator's
    std::string from = {};  // the address that connections go out by; empty: what the system chooses
    int memory = -1;
    int doorbell = -1;  // eventfd by which workers wake the courier
    // Messages to its owner: {"say": "host_lost", "host", "why"} | {"say": "error", "fault", "message", "advice"} |
    // {"say": "end", "goes_on"}: the coordinator ends the run, or leaves it to a new launch | {"say": "orphan", "host",
    // …}: another host's Claim. An error that "gives_up" leaves the run to the other hosts. The coordinator's owner
    // also hears
    // {"say": "link", "host", "round_trip_seconds", "bytes_per_second"}: measured when the host has connected;
    // {"say": "pace", "host", "exchange_seconds"}: of a step on that host ("": its own), once a second;
    // {"say": "received_state", "host", "step", "shares": {sender: bytes}}: a host has been sent the state.
    std::function<void(const Json&)> tell;
    std::function<void(uint64_t stage)> opened;   // workers may begin
    std::function<void(uint64_t stage)> aborted;  // it never opened
  };
  Courier(net::Loop& loop, Options options);
  Courier(const Courier&) = delete;

  // The coordinator's: a stage begins. Nobody on this host is in its loop.
  void begin_stage(HostPlan plan);
  // The coordinator's: the run is over. `goes_on`: it goes on in a new launch.
  void end_run(bool goes_on);
  bool gave_up() const { return gave_up_; }  // the coordinator's: others may go on
  HostLinks& links() { return links_; }

  // After the coordinator is lost.
  //
  // The last stage that was opened here; where none was, the one that this host was about to open. Null: none.
  const HostPlan* last_plan() const;
  Holding& holding() { return holding_; }
  // Whether the run can go on from this host's memory.
  bool is_fit() { return holding_.is_fit(entrance_.receives_state()); }
  // Aborts the stage. put_in_order() follows once no worker of this host is in its loop.
  void abort_stage();
  int64_t put_in_order();  // returns the step that it goes on from
  // Nothing of it acts any more.
  void retire();

 private:
  void on_lost(const std::string& name, const Error& why, bool silent);
  void count_silent(const std::string& name);
  void fail(const Error& error);
  Json words_of(const Error& error) const;
  std::optional<Landing> landing(const std::string& host, const net::FrameHead& head);
  void on_message(const std::string& from, const Json& said);
  void hear_host(const std::string& from, const Json& said);
  void hear_coordinator(const Json& said);
  void hear_abort(uint64_t stage);
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
  std::set<std::string> silent_;  // the coordinator's: hosts of the stage of which nothing is heard any more
  bool gave_up_ = false;
  int ticks_ = 0;
  std::shared_ptr<net::Loop::Watch> bell_;
  std::shared_ptr<net::Loop::Timer> timer_;
};

}  // namespace estrain::hosts
