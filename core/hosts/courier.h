#pragma once
// The courier of a host: the one process there that talks to the couriers of the job's other hosts. It exchanges what
// their workers need (step_exchange.h), opens stages, passes on that one is aborted, brings a host that joins the
// state, and notices who is lost. PROTOCOL.md states the rules and why they suffice.
//
// The coordinator's courier belongs to its launcher and connects to all others; the others' belong to their agents.
// All of it runs in the thread of the loop.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "core/base/json/json.h"
#include "core/hosts/agents/own_pause.h"
#include "core/hosts/exchange/step_exchange.h"
#include "core/hosts/kept_records.h"
#include "core/net/connection.h"

namespace estrain::hosts {

inline constexpr int beat_milliseconds = 100;
inline constexpr int64_t silence_ns = 1'500'000'000;  // then a host counts as lost

class Courier : private Outbox {
 public:
  struct Options {
    net::Key key;
    net::Greeting own;      // its host: the name by which the plans call this one; "" on the coordinator's
    std::string from = {};  // the address that connections go out by; empty: what the system chooses
    int memory = -1;
    int doorbell = -1;  // eventfd by which workers wake the courier
    // Messages to its owner: {"say": "host_lost", "host", "why"} | {"say": "error", "fault", "message", "advice"} |
    // {"say": "end"}: the coordinator ends the run | {"say": "orphan", "host", …}: another host's Claim. An error that
    // "gives_up" leaves the run to the other hosts. The coordinator's owner also hears
    // {"say": "link", "host", "round_trip_seconds", "bytes_per_second"}: measured when the host has connected;
    // {"say": "pace", "host", "exchange_seconds"}: of a step on that host ("": its own), once a second.
    std::function<void(const Json&)> tell;
    std::function<void(uint64_t stage)> opened;   // workers may begin
    std::function<void(uint64_t stage)> aborted;  // it never opened
  };
  Courier(net::Loop& loop, Options options);
  ~Courier() override;

  // The coordinator's: a stage begins. Nobody on this host is in its loop.
  void begin_stage(HostPlan plan);
  // The coordinator's: the run is over.
  void end_run();
  // From now on.
  void go_out_by(const std::string& address) { options_.from = address; }
  // Another host has connected.
  void take(net::ConnectionPtr connection);
  // The other hosts that this one is connected to.
  std::set<std::string> connected() const;

  // After the coordinator is lost.
  //
  // The last stage that was opened here; where none was, the one that this host was about to open. Null: none.
  const HostPlan* last_plan() const;
  bool has_opened_a_stage() const { return last_stage_.has_value(); }
  // Whether the run can go on from this host's memory: its state is whole, and the run's files have all records before
  // those that it still holds.
  bool is_fit();
  // The stage is over. What it left is put in order once no worker of this host is in its loop.
  void leave_coordinator();
  int64_t put_in_order();  // returns the step that it goes on from
  // From which step on the memory holds the records.
  int64_t records_from();
  void tell_others(const Json& message);
  // Nothing of it acts any more.
  void retire();

 private:
  class Link;
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

  bool leads() const { return options_.own.host.empty(); }
  comm::JobMemory& memory();
  void reach(const HostShare& host, bool clear);
  void add(net::ConnectionPtr connection, const std::string& name);
  void lose(std::string name, const Error& why, bool silent);  // the name may be the link's own
  void count_silent(const std::string& name);
  void note_recorded(int64_t step);
  void fail(const Error& error);
  template <typename Act>
  void attempt(Act&& act);
  Json words_of(const Error& error) const;
  Link* link_to(const std::string& name) const;
  std::optional<size_t> index_of(const std::string& name) const;

  void on_message(const std::string& from, const Json& message);
  void follow(HostPlan plan, const Json& message);
  bool has_state_of(int64_t step);
  void send_state(const std::string& to);
  void take_state();
  void try_open();
  bool reaches_all(const HostPlan& plan) const;
  void tell_plan();
  void open();
  void abort_stage();
  void tell_abort(uint64_t stage);

  void serve_workers();
  void take_request();
  void work();
  void on_timer();
  int64_t step_of_records();
  void send_beats_in_time();
  void send_beats();
  void tell_pace();
  void take_beats(size_t host, std::span<const WorkerBeat> beats);

  void send(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) override;
  void send_copy(size_t host, const net::FrameHead& head, std::span<const std::byte> bytes) override;

  net::Loop& loop_;
  Options options_;
  std::unique_ptr<comm::JobMemory> memory_;
  std::map<std::string, std::unique_ptr<Link>> links_;  // by the name of the other host
  std::map<std::string, bool> reaching_;                // being connected to
  std::optional<Opening> opening_;
  std::optional<HostPlan> last_stage_;  // that was opened here
  std::set<std::string> silent_;        // the coordinator's: hosts of it of which nothing is heard any more
  KeptRecords records_;
  bool gave_up_ = false, retired_ = false;
  std::shared_ptr<StepExchange> exchange_;  // of the stage under way
  bool aborted_ = false;
  bool has_trained_ = false;  // the memory holds a state of this run's, not of a builder's
  uint32_t asked_ = 0;        // the last request that was handed to the exchange
  OwnPause own_pause_;
  std::unique_ptr<Link> farewell_;  // to the coordinator that was lost, until the last message has left
  std::shared_ptr<net::Loop::Timer> farewell_end_;
  bool counted_begun_ = false;
  bool works_ = false;  // goes on with work() in a moment
  int ticks_ = 0;
  std::vector<std::byte> scrap_;  // what is not wanted any more is read to here
  std::shared_ptr<net::Loop::Watch> bell_;
  std::shared_ptr<net::Loop::Timer> timer_;
};

}  // namespace estrain::hosts
