#pragma once
// A simulated machine in virtual time: processes that start, train, die, hang and leave, a scribe with a disk, clients
// with requests. The machine replaces the launcher: it turns occurrences into events for decide() and executes the
// actions. A schedule is a function of its seed; the laws (laws.h) are checked on the way.
//
// Not tested, since simulated: speeds, the processes' writes to shared memory, the diagnosis of faults.

#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/run/decisions/decide.h"
#include "tests/virtual_time/laws.h"
#include "tests/virtual_time/random.h"

namespace estrain::virtual_time {

using decisions::WorkerId;
inline constexpr Nanoseconds kMs = 1ms;
using Decide = std::function<std::vector<decisions::Action>(decisions::RunState&, const decisions::Event&,
                                                            const decisions::Moment&)>;

struct Violation {
  Law law;
  std::string what;
};

// Counts of each kind of event and action, and of faults and requests in each phase.
struct Coverage {
  std::array<int64_t, std::variant_size_v<decisions::Event>> events{};
  std::array<int64_t, std::variant_size_v<decisions::Deed>> deeds{};
  std::array<int64_t, 6> faults{}, requests{};  // by phase

  void add(const Coverage& other);
};

struct Outcome {
  int64_t events = 0;  // given to decide()
  std::vector<Violation> violations;
  Coverage coverage;
};

class World {
 public:
  // `trace`: receives each event and action; null: none.
  World(uint64_t seed, Decide decide, std::FILE* trace = nullptr);

  // Runs the schedule to its end, or to the first violation.
  Outcome run();

 private:
  struct Hands;

  enum class What {
    fault,
    request,
    worker_ready,
    exchange_prepared,
    worker_begun,   // began its first mini-batch of the stage
    worker_out,     // left its loop; its message is on the way
    word_of_leave,  // arrives
    step,
    end_noticed,  // of a worker's process
    lingerer_ends,
    hang_noticed,
    stall_noticed,
    saved,
    files_finished,
    scribe_end_noticed,
    disk_has_room,
  };
  struct Happening {
    MonotonicTime time{};
    int64_t order = 0;
    What what = What::step;
    int64_t id = 0;     // of a worker, a scribe, a stage
    int64_t value = 0;  // a step, a stage
    bool finished = false;
    bool operator>(const Happening& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  struct Process {
    placement::Device device;
    bool alive = true, in_loop = false, begun = false, hung = false, lingers = false;
  };
  struct SimulatedStage {
    int64_t number = 0;
    bool open = false, aborted = false, pausing = false, stalled = false;
    int64_t begun = 0;
    MonotonicTime begun_at{}, stopped{};
  };
  struct FakeScribe {
    int64_t number = 0;
    bool alive = true, noticed = false;  // whether the launcher noticed the death
    MonotonicTime busy_until{};
  };
  struct Client {
    bool gone = false;
    int answers = 0;
  };
  // A disturbance some time after the first entry into a phase.
  struct Ambush {
    decisions::RunPhase phase;
    Nanoseconds delay;
    What what;
  };

  // world.cpp
  void set_out();
  void break_law(Law law, std::string what);
  void later(Nanoseconds delay, What what, int64_t id = 0, int64_t value = 0, bool finished = false);
  void handle(const Happening& happening);
  void tick();
  void decide(decisions::Event event);
  std::vector<decisions::Action> decisions_on(const decisions::Event& event);
  decisions::Moment moment() const;
  void spring_ambushes();
  Nanoseconds tick_interval() const;
  void end_run();
  void check_lists();
  void check_end();
  bool counts(const decisions::Event& event) const;
  void count_fault();
  void note_hopeless(const decisions::Event& event);

  // processes.cpp
  void start_process(WorkerId id, const placement::Device& device);
  void on_ready(WorkerId id);
  void on_prepared(WorkerId id, int64_t ticket);
  void on_begun(WorkerId id, int64_t stage);
  void on_out(WorkerId id, int64_t stage, bool finished);
  void on_word(WorkerId id, bool finished);
  void on_step(int64_t stage);
  void on_hang_noticed(WorkerId id);
  void leave_all(bool finished);
  void open_stage();
  void abort_stage();
  void die(WorkerId id);
  bool reap(WorkerId id);  // false if the kernel still holds the process
  void lose(WorkerId id);
  void release_hold();
  void start_saving(int64_t step);
  void on_saved(int64_t scribe, int64_t step);
  void lose_scribe(int64_t scribe);
  decisions::FaultVerdict verdict();

  // disturbances.cpp
  void strike();
  void request();
  void ask_change();
  void ask_shares();
  void ask_batch();
  void ask_stop();
  void ask_reclaim(decisions::ClientId client, const decisions::ReclaimRequest& request, MonotonicTime arrived);
  void take_up(const decisions::WaitingRequest& waiting);
  void weigh(decisions::ClientId client, const decisions::OfferRequest& request);
  void answer(decisions::ClientId client);
  decisions::ClientId new_client();
  placement::Assignment some_devices(int64_t most);

  Random random_;
  Decide decide_;
  std::FILE* trace_;
  Outcome outcome_;
  decisions::RunState job_;
  std::deque<decisions::Event> events_;
  bool deciding_ = false;

  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> agenda_;
  MonotonicTime now_ = monotonic_time(1), disturbed_until_;
  int64_t order_ = 0, idle_ticks_ = 0;
  std::vector<Ambush> ambushes_;

  std::map<WorkerId, Process> processes_;
  WorkerId newest_{-1};
  int64_t exchange_asked_ = 0, newest_exchange_ = 0;  // tickets; 0: none
  SimulatedStage stage_;
  FakeScribe scribe_;
  bool attached_ = false, mended_ = true, waits_for_hold_ = false;
  int64_t total_ = 0, trained_ = 0, committed_ = 0, held_ = -1;
  int64_t commits_each_ = 1;  // steps; more than one: the state stays in GPU memory in between
  Nanoseconds step_time_{};
  bool disk_full_ = false, cannot_go_on_ = false;
  MonotonicTime starts_fail_until_{};
  std::map<decisions::ClientId, Client> clients_;
  MonotonicTime stop_by_{};  // when the phase must be over; kNoTime: no stop requested
  int64_t tally_step_ = -1, tally_ = 0;
  bool hopeless_ = false;  // after a fault that need not be survived
  bool failed_ = false;
  int64_t stops_without_room_ = 0;  // asked for while the last state waited for room
};

// An event or action by name, for the trace.
std::string name_of(const decisions::Event& event);
std::string name_of(const decisions::Deed& deed);
std::string event_name(size_t kind);
std::string deed_name(size_t kind);
std::string phase_name(size_t phase);

}  // namespace estrain::virtual_time
