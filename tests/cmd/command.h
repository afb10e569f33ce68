#pragma once
// Runs the estrain program as a user does. If the harness fails (a time-out), it throws: the test case fails with the
// command's output.

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json/json.h"
#include "core/base/process/child_process.h"

namespace estrain::testing {

using Words = std::vector<std::string>;

Words with(Words words, const Words& more);  // concatenates

struct Ended {
  int code = -1;     // exit status, or 128 + the number of the fatal signal
  std::string text;  // stdout and stderr
  bool says(std::string_view words) const { return text.find(words) != std::string::npos; }
  std::string shown() const;  // for messages
};

// A command in the background; killed when the object goes.
class Command {
 public:
  struct Options {
    std::string before;  // a shell runs these words, then executes the command
  };
  explicit Command(const Words& arguments) : Command(arguments, Options{}) {}
  Command(const Words& arguments, Options options);
  Command(Command&& other) noexcept = default;
  ~Command();

  pid_t pid() const { return process_.pid(); }
  void signal(int number) const { process_.signal(number); }
  void kill();                                         // and reaps; no effect after the command's end
  bool ended_within(std::chrono::milliseconds limit);  // false if the command still runs
  Ended wait(int seconds = 600);                       // a longer command counts as hung: kills the command and throws
  std::string text() const;                            // the output so far

 private:
  std::string output_;
  ChildProcess process_;
  Ended ended_;
};

Ended estrain(const Words& arguments);  // to its end

// Polls until `holds()`. Throws after `seconds`, far more than a busy machine needs, and names `what`.
void wait_until(const std::string& what, const std::function<bool()>& holds, int seconds = 300);
// For events that may not happen: returns false after `seconds`.
bool comes_true(const std::function<bool()>& holds, int seconds);

// Processes, from /proc. A zombie counts as ended.
struct ProcessInfo {
  pid_t pid = 0, parent = 0;
  std::vector<std::string> arguments;
  // A user's Python has two arguments before the verb.
  bool is(std::string_view verb) const {
    return (arguments.size() > 1 && arguments[1] == verb) || (arguments.size() > 3 && arguments[3] == verb);
  }
};
std::vector<ProcessInfo> processes();
bool process_lives(pid_t pid);

}  // namespace estrain::testing
