#pragma once
// A job under test: `estrain train` in the background, and the commands that are run against it.

#include <cstdint>
#include <string>
#include <vector>

#include "command.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {

// `estrain train SPEC --devices DEVICES …more` to its end, which must be a good one. Returns the run directory, a new
// one in `folder`.
std::string train_on(const ScratchFolder& folder, const std::string& spec, const std::string& devices,
                     const Words& more = {});

class Job {
 public:
  // `estrain train SPEC --run RUN …more`.
  Job(std::string spec, std::string run, const Words& more = {}, Command::Options options = {});
  // `estrain train --resume --run RUN …more`.
  static Job resumed(const std::string& run, const Words& more = {});
  // Kills it if it still runs, and waits until its scribe has written what it had to.
  ~Job();
  Job(const Job&) = delete;

  const std::string& run() const { return run_; }
  Command& launcher() { return launcher_; }
  pid_t pid() const { return launcher_.pid(); }

  // From the control socket; an empty object while nobody answers. Throws with the launcher's words if it has ended.
  Json status();
  int64_t step();
  // Waits until the committed step is at least `step`.
  void reach(int64_t step);

  Ended resize(const std::string& devices) const { return estrain({"resize", run_, "--devices", devices}); }
  Ended stop() const { return estrain({"stop", run_}); }  // as the user sees it; train itself: launcher().wait()

  std::vector<pid_t> workers();               // of the stage under way, by worker index
  std::vector<ProcessInfo> children() const;  // workers that are warming up and the scribe, too
  pid_t scribe() const;

 private:
  Job(std::string run, const Words& arguments, Command::Options options);

  std::string run_;
  Command launcher_;
};

// Whether a process of the run lives.
bool anyone_left(const std::string& run);

}  // namespace estrain::testing
