#pragma once
// The daemon's view of one host's agent: membership in the pool, and the results of tasks. Pure: takes the agent's file
// and the time, changes the orders for the agent and returns the events.
//
// Invariants:
//   1. a host's devices are the pool's while the agent shows signs of life, from the first sign seen by the daemon;
//   2. an agent of another build, or with a name in use, gets no task;
//   3. an agent that was silent for kSilentNs is lost, with all its tasks. The agent may return once all former tasks
//      have ended, or as another process;
//   4. the end of a task is told once; then the task leaves the orders. Ends come before looks, so the effects of a
//      request are told after its end.

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/pool/hosts/meeting.h"

namespace estrain::pool {

struct HostJoined {
  std::vector<std::string> devices;  // with the host's name
  int64_t cores = 0;
};
struct HostRefused {
  std::string why;
};
// The agent of the host wants to end: the daemon dismisses the agent when its devices are free.
struct HostLeaves {};
struct HostLost {
  std::string why;
};
struct TaskEnded {
  Task task;
  bool signaled = false;
  int64_t code = 0;
};
// The job's launcher was looked at.
struct TaskSeen {
  Task task;
  bool leads = false;
  JobLook look;
};
using HostEvent = std::variant<HostJoined, HostRefused, HostLeaves, HostLost, TaskEnded, TaskSeen>;

class Attendance {
 public:
  struct Terms {
    std::string host;
    Build build;            // the build that agents must have
    std::string objection;  // not empty: why no agent of this host is wanted
  };
  // `before`: the orders of an earlier daemon; the agent belongs to the pool if it is still the same.
  Attendance(Terms terms, const std::optional<Orders>& before, const std::optional<AgentReport>& report,
             int64_t now_ns);

  std::vector<HostEvent> hear(const std::optional<AgentReport>& report, int64_t now_ns);

  bool is_member() const { return is_member_; }
  bool leaves() const { return leaves_; }
  // Devices that the agent offers, with the host's name.
  const std::vector<std::string>& offered() const { return offered_; }
  const std::vector<Task>& tasks() const { return orders_.tasks; }
  // The agent's report on a task that is not over; nothing: no report yet.
  std::optional<TaskReport> told_of(const std::string& task) const;

  void add(const Task& task);
  void signal(const std::string& task, int number);
  void drop(const std::string& task);  // the task is ended, gently
  void dismiss();

  // Returns orders to be written; nothing if the agent has them already.
  std::optional<Orders> changed_orders();
  void not_written() { is_changed_ = true; }

 private:
  std::vector<HostEvent> join(const AgentReport& report);
  void note_offered(const AgentReport& report);
  void lose(const std::string& why, std::vector<HostEvent>& events);
  void hear_tasks(const AgentReport& report, std::vector<HostEvent>& events);

  Terms terms_;
  Orders orders_;
  bool is_changed_ = false, is_member_ = false, leaves_ = false;
  std::string life_, refused_;  // the last agent seen; the refused agent
  int64_t beat_ = -1, heard_ns_ = 0;
  std::vector<std::string> offered_;
  std::map<std::string, TaskReport> reports_;
};

}  // namespace estrain::pool
