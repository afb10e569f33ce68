#pragma once
// Decides an agent's work for the pool's daemon: tasks to start, signals to send, and the time of reports. decide() is
// a pure function of the state, an event and the moment.

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/pool/hosts/meeting.h"

namespace estrain::pool {

// A task ordered by the daemon.
struct KnownTask {
  Task task;
  TaskReport report;
  bool is_ordered = true;
  MonotonicTime told_at{};  // when the task was told to end; kNoTime: never
  int64_t told = 0;         // the last signal sent to the task
  bool is_launcher() const { return report.leads || task.kind == kLauncher; }
};

// The state. decide() alone changes the Duties of an agent.
struct Duties {
  std::string life;     // of this agent
  int64_t serial = -1;  // of the last orders
  bool is_welcome = false, is_dismissed = false;
  std::string refusal = {};
  std::map<std::string, KnownTask> known = {};

  bool anything_runs() const;
};

// Events.
// The orders now in the file. Orders for another agent, or older than the last orders, change nothing.
struct OrdersRead {
  Orders orders;
};
// No daemon gives orders any more: launchers are stopped with a checkpoint, then all other tasks are ended.
struct NobodyOrders {};
// The task's process has ended, or could not be started.
struct ProcessEnded {
  std::string task;
  bool signaled = false;
  int64_t code = 0;
};
// The agent has looked at the task and the run.
struct TaskLookedAt {
  std::string task;
  bool leads = false, listens = false;  // as in TaskReport
  std::optional<JobLook> look = {};     // if the task leads, and the run answers
};
using DutyEvent = std::variant<OrdersRead, NobodyOrders, ProcessEnded, TaskLookedAt>;

// Actions.
struct StartTask {  // answered by ProcessEnded if the task cannot be started
  Task task;
};
struct SignalTask {
  std::string id;
  int number = 0;
};
struct ReportNow {};  // without waiting for the next sign of life
using DutyDeed = std::variant<StartTask, SignalTask, ReportNow>;

struct Duty {
  DutyDeed deed;
  std::string reason;  // why, in words
};

// Changes `state` as if the actions had been carried out.
std::vector<Duty> decide(Duties& state, const DutyEvent& event, MonotonicTime now);

}  // namespace estrain::pool
