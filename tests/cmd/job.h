#pragma once
// A job under test: `estrain train` in the background, and commands for it.

#include <cstdint>
#include <string>
#include <vector>

#include "command.h"
#include "tests/scratch_folder.h"

namespace estrain::testing {

// The address of the program, which differs for each exec and is the same in a copy.
std::string place_of(pid_t pid);
bool are_copies_of(const std::vector<pid_t>& workers, pid_t server);

// Runs `estrain train SPEC --devices DEVICES …more`, which must succeed. Returns the run directory, a new folder in
// `folder`.
std::string train_on(const ScratchFolder& folder, const std::string& spec, const std::string& devices,
                     const Words& more = {});
// Trains 4 ESTs on one worker up to step `first`, then on two, of 1 and 3 ESTs, up to step `last`. Both must succeed.
std::string train_in_two(const ScratchFolder& folder, const std::string& spec, const std::string& first,
                         const std::string& last);

struct DisturbedPlaces {
  std::string first = "1", resumed = "2";
  int64_t steps = 4;  // between two changes
};

// Trains 4 ESTs on the first place, then on each of these device lists, kills a worker, stops the job and resumes the
// job. The bits must equal an undisturbed run's on the first place. The spec's own number of steps does not matter.
void check_disturbed_job(const ScratchFolder& folder, const std::string& spec, const Words& devices,
                         const DisturbedPlaces& places = {});

class Job {
 public:
  // `estrain train SPEC --run RUN …more`.
  Job(std::string spec, std::string run, const Words& more = {}, Command::Options options = {});
  // `estrain train --resume --run RUN …more`.
  static Job resumed(const std::string& run, const Words& more = {});
  // Kills the launcher if it still runs, and waits until the scribe has written everything.
  ~Job();
  Job(const Job&) = delete;

  const std::string& run() const { return run_; }
  Command& launcher() { return launcher_; }
  pid_t pid() const { return launcher_.pid(); }

  // Asks the control socket. Returns an empty object while the launcher does not answer. Throws with the launcher's
  // output if the launcher has ended.
  Json status();
  int64_t step();
  // Waits for a committed step of at least `step`.
  void reach(int64_t step);

  Ended resize(const std::string& devices) const { return estrain({"resize", run_, "--devices", devices}); }
  Ended stop() const { return estrain({"stop", run_}); }  // the command's own end; for train's: launcher().wait()

  std::vector<pid_t> workers();               // of the current stage, by worker index
  std::vector<ProcessInfo> children() const;  // including starting workers and the scribe, without fork servers
  std::vector<pid_t> fork_servers() const;
  pid_t scribe() const;

 private:
  Job(std::string run, const Words& arguments, Command::Options options);

  std::string run_;
  Command launcher_;
};

// Whether any process of the run lives.
bool anyone_left(const std::string& run);

}  // namespace estrain::testing
