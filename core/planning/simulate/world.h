#pragma once
// A world for trying a policy: jobs with their true behaviour, on a cluster, in virtual time.

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/planning/scheduling/policy.h"

namespace estrain::simulate {

// The cost of a change of a job's devices. `published`: as in the paper of the world.
struct Charge {
  enum class Kind { published, measured, seconds } kind = Kind::published;
  double seconds = 0;  // for the other two kinds
};

// Returns the cost of a change of devices on this machine: the median, over the resizes in a run's file events.jsonl,
// of the seconds that the job paused or lost while new workers warmed up. Throws Fault::infeasible if the file has no
// resize.
double measured_charge(const std::string& events_path);

// A job in the world. Policies see `facts`, which the world keeps up to date.
class SimulatedJob {
 public:
  virtual ~SimulatedJob() = default;

  // Runs with the current placement for `seconds` from `from`; sets `finished` if the job ends in this time.
  virtual void run(double from, double seconds) = 0;
  // Gives the job a new placement, possibly empty.
  virtual void place(const scheduling::Placement& placement) = 0;
  // Returns the seconds to the job's end with the current placement; infinite without a placement. Needed only for
  // Workload::at_events.
  virtual double seconds_to_end() const { return std::numeric_limits<double>::infinity(); }
  // Counted as used; fewer than the job holds, if other jobs may use the rest.
  virtual double devices_in_use() const { return static_cast<double>(scheduling::devices_of(facts.placement)); }

  scheduling::JobView facts;
  std::optional<double> finished;
};

// A set of jobs and their cluster.
struct Workload {
  std::string name;  // "1.0/3"
  const scheduling::Cluster* cluster = nullptr;
  std::shared_ptr<void> shared;  // the world's data shared by the jobs; null: jobs do not affect each other
  std::vector<std::unique_ptr<SimulatedJob>>
      jobs;                   // by time of submission; JobView::order is their position in the trace
  double begin = 0;           // start of the clock, in seconds
  double round = 60;          // seconds from decision to decision
  double charge = 0;          // seconds of a change of devices, as policies and results see
  bool at_events = false;     // policies may decide between rounds
  bool rounds_too = false;    // of at_events: also at the end of a round
  bool whole_rounds = false;  // the makespan is counted to the beginning of the last round
};

class World {
 public:
  virtual ~World() = default;
  virtual std::vector<std::string> workloads() const = 0;
  // Creates the workload for each simulation.
  virtual Workload make(const std::string& workload, scheduling::Knowledge knowledge, const Charge& charge,
                        uint64_t seed) const = 0;
  // What a reader of the results must know: "7 of 120 jobs are left out: 7 ask for no device".
  virtual std::vector<std::string> notes() const { return {}; }
  // For policies whose text does not say.
  virtual scheduling::EasyscaleRules easyscale_rules() const { return scheduling::EasyscaleRules::paper; }
};

struct WorldFiles {
  std::string folder;   // folder with the tables of the world; empty: jobs of known duration
  std::string trace;    // the jobs
  std::string cluster;  // as typed: "4x8:v100,8x2:p100"; empty: the world's own
};

// Returns the world of the tables in the folder, recognised by their names, with the jobs of the trace. Throws
// Fault::spec or Fault::infeasible for an invalid trace, Fault::usage for a missing or unexpected cluster, Fault::io
// for missing files.
std::unique_ptr<World> open_world(const WorldFiles& files);

}  // namespace estrain::simulate
