#pragma once
// Hosts of a run, the network between the hosts and the run directory, in virtual time. The decisions are made by
// core/hosts/succession/succession.h; couriers, launchers and scribes are simulated. A schedule is a function of its
// seed: delays, cuts both ways or one way, pauses of a host, deaths of all its processes at any moment, slow disks,
// locks that other hosts do not see.

#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/hosts/courier/courier.h"
#include "core/hosts/courier/host_links.h"
#include "core/hosts/courier/opening_patience.h"
#include "core/hosts/succession/succession.h"
#include "tests/hosts_in_virtual_time/laws.h"
#include "tests/virtual_time/random.h"

namespace estrain::hosts_in_virtual_time {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int kMostHosts = 6;
inline constexpr int64_t kAfterOwnPauseNs = 5'000 * kMs;  // pauses with less between them count together

inline size_t index(int id) { return static_cast<size_t>(id); }

// The decisions; a planted mistake replaces one.
struct Rules {
  std::function<bool(size_t hosts, size_t silent, size_t silent_that_see_the_run)> must_give_up = hosts::must_give_up;
  std::function<bool(const hosts::Holdings&)> is_fit = hosts::is_fit;
  std::function<hosts::PeerAnswer(int64_t, bool, int64_t, bool)> judge_peer = hosts::judge_peer;
  std::function<hosts::PeerAnswer(int64_t, bool, int64_t)> judge_registry = hosts::judge_registry;
  std::function<hosts::LeaseAnswer(bool, const run_directory::Term&, const run_directory::Term&)> judge_lease =
      hosts::judge_lease;
  std::function<std::vector<hosts::SuccessionAction>(hosts::Succession&, const hosts::SuccessionEvent&, MonotonicTime)>
      decide = hosts::decide;
  std::function<hosts::Orphan(hosts::Orphan)> orphan = [](hosts::Orphan one) { return one; };
  std::function<std::optional<hosts::OpeningPatience::Unanswered>(hosts::OpeningPatience&, MonotonicTime)> unanswered =
      [](hosts::OpeningPatience& patience, MonotonicTime now) { return patience.look(now); };
  std::function<bool(bool leads, bool has_coordinator, bool other_leads)> expects_beats = hosts::exchanges_beats;
  std::function<bool(bool leads, bool has_coordinator, bool other_leads, Nanoseconds)> sends_beats = hosts::sends_beats;
  std::function<std::vector<hosts::LostHost>(std::vector<hosts::LossReport>, const std::vector<std::string>&)>
      hosts_to_leave = hosts::hosts_to_leave;
  bool notices_unacknowledged = true;  // net/connection.h
  bool keeps_whole_steps = true;       // Courier::put_in_order()
  bool respects_locks = true;          // RunDirectory::try_lock()
  bool outsiders_have_say = false;     // Courier::judge_reports()
  bool plan_tells_records = true;      // Courier: the plan of a stage comes with the records in the run's files
};

struct Violation {
  Law law;
  std::string what;
};

enum class Hit {
  kill,
  cut,
  one_way_cut,
  pause,
  leave,
  join,
  call,
  takeovers,
  gave_up,
  blind_takeovers,
  finished,
  about_first_step,
  apart_takeovers,
  registered_again,
  half_connections,
  set_aside,
  unacknowledged,
  apart_from_orphan,
  lost_each_other,
  reported_late,
  count
};

struct Coverage {
  std::array<int64_t, static_cast<size_t>(Hit::count)> hits{};

  void add(const Coverage& other) {
    for (size_t kind = 0; kind < hits.size(); ++kind) hits[kind] += other.hits[kind];
  }
};

struct Outcome {
  int64_t events = 0;
  std::vector<Violation> violations;
  Coverage coverage;
};

class World {
 public:
  World(uint64_t seed, const Rules& rules, std::FILE* trace);
  Outcome run();

 private:
  using Random = virtual_time::Random;

  enum class Role { agent, coordinator, saving, taking, over };

  struct Host {
    int id = 0, life = 0;
    bool alive = true, sees_run = true;
    int64_t paused_until = 0, paused_from = 0;  // pauses in close succession are one pause
    Role role = Role::agent;
    int64_t term = 0;
    int leader = -1;  // the host that this host follows
    // The stage that this host opened last, and the stage's hosts, the coordinator first.
    uint64_t stage = 0;
    std::vector<int> members;
    bool in_stage = false;
    int64_t ready = 0;  // the step whose partial sums this host has sent
    std::array<uint64_t, kMostHosts> their_stage{};
    std::array<int64_t, kMostHosts> their_ready{}, their_done{};  // in that stage
    // The stage that this host is about to open.
    bool opening = false;
    uint64_t next_stage = 0;
    int64_t next_step = 0;
    std::vector<int> next_members;
    std::set<int> opened;
    // Its state and records.
    bool has_state = false, receives = false;
    int64_t committed = 0, whole = 0, records_from = 1, recorded = -1;
    int64_t advanced_ns = 0;  // the coordinator's: when a step was last committed, or the stage opened
    // The coordinator's.
    std::set<int> silent, left_out;
    std::vector<hosts::LossReport> reports;
    int64_t reported_ns = 0;                      // when the first of these reports came
    std::set<int> lost;                           // since the last stage began
    std::map<std::string, std::string> lost_for;  // a host that left for reports, and the only host that had named it
    bool reopens = false;
    std::optional<hosts::OpeningPatience> patience;
    // The orphan's.
    std::optional<hosts::Succession> succession;
    int64_t told_ns = 0;
    bool sees_locks = false, watches = false;
  };
  struct Happening {
    int64_t ns, order;
    std::function<void()> act;
    bool operator>(const Happening& other) const { return ns != other.ns ? ns > other.ns : order > other.order; }
  };
  struct Letter {
    int64_t connection;
    std::function<void()> act;
  };
  // The run directory.
  struct Files {
    run_directory::Term term{1, 0};
    bool owned = true;                             // the lock file names a host
    int holder = -1;                               // of the lock, where locks are seen
    std::vector<std::pair<int64_t, int>> touches;  // time, and host
    int64_t recorded = 0;
    bool ended = false;
  };

  // world.cpp: time and network
  void say(const std::string& text);
  void break_law(Law law, std::string what);
  void push(int64_t ns, std::function<void()> act);
  void at(Host& host, int64_t delay_ns, std::function<void()> act);
  void when_awake(int id, int life, std::function<void()> act);
  void send(Host& from, int to, std::function<void()> act);
  void deliver(int from, int to);
  void connect(Host& from, int to, bool leads);
  void close(Host& host, int to);
  void drop(Host& host, int other, bool silent);
  bool expects_beats(int ear, int mouth);
  bool has_coordinator(const Host& host) const;
  bool hears_beats(int ear, int mouth);
  void judge_hearing(int ear, int mouth);
  void judge_all_hearing(int id);
  void note_unacknowledged(int from, int to);
  void set_path(int from, int to, bool up);
  int64_t delay() { return random_.between(1, slow_network_ ? 120 : 5) * kMs; }
  bool linked(int a, int b) const { return links_[static_cast<size_t>(a)][static_cast<size_t>(b)] != 0; }
  std::string name(int id) const { return "h" + std::to_string(id); }

  // stage.cpp: what hosts do in a stage
  void reopen(Host& host);
  void on_plan(Host& host, int from, uint64_t stage, int64_t step, const std::vector<int>& members);
  void try_open(Host& host);
  hosts::OpeningWait waits_for(const Host& host) const;
  void tell_wait(Host& host, uint64_t stage);
  void watch_opening(Host& host, uint64_t stage, int64_t began);
  void open(Host& host);
  void watch_stage(int id, int64_t term, uint64_t stage);
  void compute(Host& host);
  void progress(Host& host);
  void commit(Host& host);
  void note_recorded(Host& host, int64_t step);
  void abort(Host& host);
  void lose(Host& host, int other, bool silent);
  void hear_report(Host& host, int from, int other);
  void judge_reports(Host& host);
  bool counts(const Host& host, const hosts::LossReport& report) const;
  void check_accusers(Host& host, const std::vector<hosts::LossReport>& reports,
                      const std::vector<hosts::LostHost>& leave);
  void leave_out(Host& host, int other);
  void go_on_without_lost(Host& host);
  void give_up(Host& host);
  void finish(Host& host);
  void end(Host& host);
  void kill(Host& host);
  bool leads(const Host& host) const;
  Host* coordinator();
  void check_leaders();
  void check_end();

  // succession.cpp
  void orphan(Host& host);
  void look(Host& host);
  void register_now_and_then(int id);
  bool could_lead(const Host& host) const;
  void happened(Host& host, const hosts::SuccessionEvent& event);
  void carry_out(Host& host, const hosts::TellOthers& deed, const std::string& reason);
  void carry_out(Host&, const hosts::KeepWaiting&, const std::string&) {}
  void carry_out(Host& host, const hosts::TryLease& deed, const std::string& reason);
  void carry_out(Host& host, const hosts::TakeOver& deed, const std::string& reason);
  void carry_out(Host& host, const hosts::EndOnThisHost& deed, const std::string& reason);
  bool has_most_behind(const Host& host) const;
  void take_over(Host& host);
  void start_leading(Host& host, const std::vector<int>& others);
  void touch(Host& host);
  bool sees_touch(const Host& host, int64_t since_ns) const;
  void begin_anew(Host& host, int64_t term);

  // disturbances.cpp
  void stand_still(Host& host, int64_t until);
  void disturb();
  void strike();
  void strike_about_first_step();
  void cut_off(Host& host, int64_t ns);
  void pause(Host& host, int64_t ns);
  void ambush();
  Host& host(int id) { return hosts_[static_cast<size_t>(id)]; }
  Host* pick(bool alive);
  void hit(Hit what) { ++outcome_.coverage.hits[static_cast<size_t>(what)]; }

  Random random_;
  const bool strikes_about_first_step_;
  Random apart_;                  // decides how far reports of losses come apart
  std::optional<Random> halves_;  // decides which connections stand at one end alone; nothing: no connection does
  const Rules& rules_;
  std::FILE* trace_;
  Outcome outcome_;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> queue_;
  int64_t now_ = 0, order_ = 0, connections_ = 0;
  bool broken_ = false;
  std::vector<Host> hosts_;
  std::set<std::tuple<int64_t, uint64_t, int, std::string>> backed_;  // by term, stage and host: whom it has backed
  std::array<std::array<bool, kMostHosts>, kMostHosts> up_{};
  std::array<std::array<int64_t, kMostHosts>, kMostHosts> links_{};  // the first host's view of the connection; 0: none
  std::array<std::array<int64_t, kMostHosts>, kMostHosts>
      deaf_since_{};  // the first expects beats of the second and hears none; 0: it hears
  std::array<std::array<int64_t, kMostHosts>, kMostHosts>
      unacknowledged_since_{};  // the first has sent bytes to the second without an answer of the system; 0: none
  std::array<std::array<int64_t, kMostHosts>, kMostHosts> last_delivery_{};
  std::array<std::array<std::deque<Letter>, kMostHosts>, kMostHosts> letters_;
  Files files_;
  bool blind_ = false, slow_network_ = false;
  int64_t slowest_write_ns_ = 0;
  int64_t file_lag_ns_ = 0;  // delay of a touch for other hosts, where locks are not seen
  int64_t lock_delay_ns_ = 0, patience_ns_ = 0, total_steps_ = 0;
  int64_t committed_ = 0;  // the newest step committed by a coordinator
  int strikes_left_ = 0;
  int64_t led_from_ = 0;  // the step from which the last coordinator led
  int64_t newest_term_ = 1;
};

}  // namespace estrain::hosts_in_virtual_time
