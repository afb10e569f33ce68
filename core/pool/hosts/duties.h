#pragma once
// The agent's side of the daemon's orders: decides which tasks to start, signal and forget. Pure.

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/pool/hosts/meeting.h"

namespace estrain::pool {

struct StartTask {
  Task task;
};
struct SignalTask {
  std::string id;
  int number;
};
using Duty = std::variant<StartTask, SignalTask>;

class Duties {
 public:
  explicit Duties(std::string life) : life_(std::move(life)) {}

  // Takes the orders now in the file. Orders for another agent, or older than the last orders, change
  // nothing.
  std::vector<Duty> take(const Orders& orders, int64_t now_ns);
  // No daemon is left to give orders: launchers are stopped with a checkpoint, then all other tasks are ended.
  std::vector<Duty> wind_up(int64_t now_ns);
  void ended(const std::string& id, bool signaled, int64_t code);

  bool is_welcome() const { return is_welcome_; }
  bool is_dismissed() const { return is_dismissed_; }
  const std::string& refusal() const { return refusal_; }
  bool anything_runs() const;
  struct Known {
    Task task;
    TaskReport report;
    bool is_ordered = true;
    int64_t told_ns = 0;  // when the task was told to end; 0: never
    int64_t told = 0;     // the signal that the task has got
    bool is_launcher() const { return report.leads || task.kind == kLauncher; }
  };
  std::map<std::string, Known>& known() { return known_; }

 private:
  void end(Known& one, int64_t now_ns, std::vector<Duty>& duties);

  std::string life_, refusal_;
  int64_t serial_ = -1;
  bool is_welcome_ = false, is_dismissed_ = false;
  std::map<std::string, Known> known_;
};

}  // namespace estrain::pool
