#pragma once
// Decides the daemon's dealings with the agent of one host: membership in the pool, orders, and the results of tasks.
// decide() is a pure function of the state, an event and the moment.
//
// Invariants:
//   1. a host's devices are the pool's while the agent shows signs of life, from the first sign seen by the daemon;
//   2. an agent of another build, or with a name in use, gets no task;
//   3. an agent that was silent for kSilent is lost, with all its tasks. The agent may return once all former tasks
//      have ended, or as another process;
//   4. the end of a task is told once; then the task leaves the orders. Ends come before looks, so the effects of a
//      request are told after the end of the request.

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/pool/hosts/meeting.h"

namespace estrain::pool {

// The state. decide() alone changes an Attendance after take_up_agent().
struct Attendance {
  struct Terms {
    std::string host;
    Build build;            // required of agents
    std::string objection;  // not empty: why no agent of this host is wanted
  };
  Terms terms;
  bool is_member = false, leaves = false;
  std::vector<std::string> offered = {};           // devices of the agent, with the host's name
  Orders orders = {};                              // of a member, or the refusal
  bool are_orders_new = false;                     // the agent's file has older orders
  std::map<std::string, TaskReport> reports = {};  // by the agent, on tasks still at work
  std::string life = {}, refused = {};             // the last agent seen; the refused agent
  int64_t beat = -1;                               // of the last agent seen
  MonotonicTime heard{};                           // from that agent

  // Returns the agent's report on a task still at work; nothing: no report yet.
  std::optional<TaskReport> told_of(const std::string& task) const;
};

// Returns the state at the start of a daemon. `before`: the orders of an earlier daemon; the agent belongs to the pool
// if the agent is still the same.
Attendance take_up_agent(Attendance::Terms terms, const std::optional<Orders>& before,
                         const std::optional<AgentReport>& report, MonotonicTime now);

// Events.
// A look at the agent's file. Nothing: no readable file, which counts as silence. On a shared file system, a file that
// the agent replaces between the opening and the reading may not be readable.
struct ReportRead {
  std::optional<AgentReport> report;
};
struct TaskOrdered {
  Task task;
};
struct SignalOrdered {
  std::string task;
  int number = 0;
};
struct TaskDropped {  // the task is to end, gently
  std::string task;
};
struct DevicesReleased {};  // the pool has let go of all devices of a leaving agent
struct OrdersDue {          // orders may be written now
  bool is_recorded = true;  // pool.db has the devices of all members
};
struct OrdersNotWritten {};  // the answer to WriteOrders, if the disk is full
using AttendanceEvent =
    std::variant<ReportRead, TaskOrdered, SignalOrdered, TaskDropped, DevicesReleased, OrdersDue, OrdersNotWritten>;

// Actions.
struct AdmitHost {
  std::vector<std::string> devices;  // with the host's name
  int64_t cores = 0;
  double memory = 0;                        // for jobs, in bytes; 0: not known
  std::map<std::string, double> gpus = {};  // as AgentReport::gpus
  std::string rack = {};                    // as AgentReport::rack
};
// Of a member.
AdmitHost admission_of(const Attendance& state, const AgentReport& report);
struct RefuseHost {};
struct FreeHost {};    // the agent of the host wants to end: answered by DevicesReleased
struct GiveUpHost {};  // the host is lost
struct TellTaskEnd {
  Task task;
  bool signaled = false;
  int64_t code = 0;
};
struct TellLook {  // the job's launcher was looked at
  Task task;
  bool leads = false;
  JobLook look;
};
struct WriteOrders {
  Orders orders;
};
using AttendanceDeed = std::variant<AdmitHost, RefuseHost, FreeHost, GiveUpHost, TellTaskEnd, TellLook, WriteOrders>;

struct AttendanceAction {
  AttendanceDeed deed;
  std::string reason;  // why, in words
};

// Changes `state` as if the actions had been carried out.
std::vector<AttendanceAction> decide(Attendance& state, const AttendanceEvent& event, MonotonicTime now);

}  // namespace estrain::pool
