#pragma once
// All agents of a pool, as its daemon sees them: attendance.h with the files of meeting.h.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/pool/hosts/attendance.h"

namespace estrain::pool {

struct AgentEvent {
  std::string host;
  HostEvent what;
};

class Agents {
 public:
  // `own`: the name of the daemon's host, which no agent may have.
  Agents(std::string pool, std::string own);

  // Reads what the agents have written.
  std::vector<AgentEvent> look();
  // Writes the orders that have changed and, now and then, the daemon's sign of life. A full disk is waited for.
  void flush();

  std::vector<std::string> members() const;
  bool is_member(const std::string& host) const;
  bool leaves(const std::string& host) const;
  std::vector<std::string> offered(const std::string& host) const;

  // The task's name. Where the host is no member, nothing happens, and its end is not told.
  std::string start(const std::string& host, Task task);
  void signal(const std::string& host, const std::string& task, int number);
  void drop(const std::string& host, const std::string& task);
  void dismiss(const std::string& host);

  struct Placed {
    std::string host;
    Task task;
    bool leads = false;    // it is the launcher of its job now
    bool listens = false;  // it is an agent of a run, and ready
  };
  // Tasks of this job on all members that have not ended.
  std::vector<Placed> tasks_of(int64_t job) const;
  std::vector<Placed> tasks() const;

 private:
  Attendance::Terms terms_for(const std::string& host) const;
  Attendance* find(const std::string& host);
  const Attendance* find(const std::string& host) const;

  Meeting meeting_;
  DaemonSign sign_;
  std::map<std::string, Attendance> hosts_;
  int64_t looks_next_ns_ = 0, signs_next_ns_ = 0, names_next_ns_ = 0;
};

}  // namespace estrain::pool
