#pragma once
// The ends of a pool's jobs, and what failures say about further jobs.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json/fields.h"
#include "core/base/json/json.h"

namespace estrain::dispatch {

// The first three are the final statuses of M. Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN
// Training Workloads" (USENIX ATC 2019, the Philly study), Table 6.
enum class Outcome {
  passed,
  killed,        // cancelled
  unsuccessful,  // failed for good
  retried,       // failed, and the pool tries again
};
std::string_view outcome_name(Outcome outcome);
Json to_field(Outcome outcome);  // as core/base/json/codec.h says
void from_field(const Json& json, Outcome& outcome);

// An end of a job of a pool, as the pool keeps it for the tables of failures (core/pool/failures.h). A job that is
// tried again has several.
struct JobEnd {
  int64_t job = 0;
  double time = 0;  // the moment
  std::string user;
  Outcome outcome = Outcome::passed;
  std::string cause = {};        // an id of the fault table, or kCheckCause; empty: no failure
  std::string fault_class = {};  // "user", "infrastructure" or "engine"
  int64_t step = 0;              // committed
  // Since the job's last end, or its submission: seconds with devices (the study's runtime to failure), and
  // device-seconds. All ends of a job together have the job's device-seconds.
  double seconds = 0, device_seconds = 0;
  int64_t devices = 0;                  // at the end
  std::vector<std::string> files = {};  // of the job, as the failure names files
  bool operator==(const JobEnd&) const = default;
  ESTRAIN_FIELDS(job, time, user, outcome, cause, fault_class, step, seconds, device_seconds, devices, files)
};

inline constexpr std::string_view kCheckCause = "check";  // `estrain check` refused the job: the job had no device

// Failures that further jobs are likely to repeat: the pool holds these jobs before they have devices. The Philly study
// (section 4.2.2) found failures to repeat with the user, job after job, and damaged inputs to fail the jobs of several
// users; its section 5 asks for a scheduler that relates failures of different jobs and keeps a list of bad inputs.
// Pure and plain data; the dispatcher decides who is held (core/planning/dispatch/turn.h).
//
// Only causes of class user count, since retries and further jobs repeat these failures. Failures found by `estrain
// check` do not: each job is checked for itself, before it has devices.

// Failed jobs of a user by one cause, since a job of the user was done.
struct UserFailures {
  std::string user, cause;
  int64_t jobs = 0;
  int64_t last = 0;  // the last of these jobs
  double at = 0;     // its end
  bool operator==(const UserFailures&) const = default;
  ESTRAIN_FIELDS(user, cause, jobs, last, at)
};

// A data file that ended a job by a cause that blames the file.
struct DamagedFile {
  std::string path, cause;
  int64_t job = 0;
  double at = 0;
  bool operator==(const DamagedFile&) const = default;
  ESTRAIN_FIELDS(path, cause, job, at)
};

// Why a job is held. `key` names the trouble: a release lets the job pass this trouble for good.
struct Obstacle {
  std::string key, sentence;
};

class Troubles {
 public:
  static constexpr double kMemory = 7 * 24 * 3600;  // s; an older trouble is forgotten
  static constexpr size_t kMost = 200;              // of each kind; the oldest are forgotten first

  // A job of the user failed by this cause of class user.
  void failed(const std::string& user, const std::string& cause, int64_t job, double now);
  // The failure of `job` named this file. No effect for causes that do not blame the file.
  void damaged(const std::string& path, const std::string& cause, int64_t job, double now);
  // A job of the user is done: the user's failures are forgotten, and so is each damaged file among the job's inputs
  // that was found before the job first had devices, at `started`.
  void done(const std::string& user, const std::vector<std::string>& inputs, double started);
  void forget_old(double now);

  // What is in the way of a job of this user with these inputs (files, and folders with all of their files), after so
  // many failures of a user.
  std::vector<Obstacle> in_the_way_of(const std::string& user, const std::vector<std::string>& inputs,
                                      int64_t failures) const;
  bool empty() const { return failures_.empty() && files_.empty(); }

  bool operator==(const Troubles&) const = default;
  ESTRAIN_FIELDS(failures_, files_)

 private:
  std::vector<UserFailures> failures_;  // in order of their last failure
  std::vector<DamagedFile> files_;      // in order of the find
};

}  // namespace estrain::dispatch
