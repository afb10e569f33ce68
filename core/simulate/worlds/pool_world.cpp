#include "core/simulate/worlds/pool_world.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/simulate/tables/csv_table.h"
#include "core/simulate/worlds/durations_world.h"
#include "core/simulate/worlds/timed_job.h"

namespace estrain::simulate {
namespace {

constexpr const char* kFirstStepColumn = "step_s_1";
constexpr const char* kTaken = "(taken)";  // a row of devices that somebody of higher right had for `start_s`

struct PastJob {
  std::string name;
  double submitted = 0, start = 0;
  int64_t ests = 1, devices = 1, most = 1, steps = 1;
  std::vector<double> step_seconds;  // on 1, 2, … devices

  double seconds_of_step(int64_t on) const {
    return step_seconds[static_cast<size_t>(std::min<int64_t>(on, static_cast<int64_t>(step_seconds.size())) - 1)];
  }
};

class PoolWorld : public World {
 public:
  explicit PoolWorld(const WorldFiles& files) : round_(files.round > 0 ? files.round : kRoundOfPools) {
    if (files.cluster.empty()) {
      throw Error(Fault::usage, "a pool's trace does not say how many devices there were")
          .advise("--cluster 1x4: one host with four");
    }
    cluster_ = parse_cluster(files.cluster);
    read(CsvTable::read(files.trace));
    for (const PastJob& job : jobs_) {
      if (job.devices > cluster_.devices())
        throw Error::make(Fault::infeasible, "{}: job {} asks for {} devices, the cluster has {}", files.trace,
                          job.name, job.devices, cluster_.devices());
    }
  }

  std::vector<std::string> workloads() const override { return {"1"}; }

  Workload make(const std::string& name, pool::Knowledge, const Charge& charge, uint64_t) const override {
    Workload workload;
    workload.name = name;
    workload.cluster = &cluster_;
    workload.round = round_;
    workload.at_events = workload.whatever_the_policy = workload.rounds_too = true;
    workload.charge = charge.kind == Charge::Kind::published ? 0 : charge.seconds;
    workload.absences = absences_;
    workload.begin = jobs_.front().submitted;
    for (const PastJob& job : jobs_) {
      const auto speed = [&job](const pool::Shape& shape) { return 1 / job.seconds_of_step(shape.all_devices()); };
      const TimedJob::Charges charges{job.start, workload.charge, job.start};
      auto made = std::make_unique<TimedJob>(cluster_, static_cast<double>(job.steps), charges, speed);
      made->facts.name = job.name;
      made->facts.order = static_cast<int64_t>(workload.jobs.size());
      made->facts.submitted = job.submitted;
      made->facts.requested = job.devices;
      made->facts.most = job.most;
      workload.jobs.push_back(std::move(made));
    }
    return workload;
  }

 private:
  void read(const CsvTable& trace) {
    for (size_t row = 0; row < trace.rows(); ++row) {
      const std::string name(trace.text(row, trace.column("name")));
      const double submitted = trace.number_from(row, trace.column("submit_s"), 0);
      if (name == kTaken) {
        const double seconds = trace.number_from(row, trace.column("start_s"), 0);
        absences_.push_back({submitted, submitted + seconds, trace.whole(row, trace.column("devices"), 1)});
        continue;
      }
      PastJob& job = jobs_.emplace_back();
      job.name = name;
      job.submitted = submitted;
      job.ests = trace.whole(row, trace.column("ests"), 1);
      job.devices = trace.whole(row, trace.column("devices"), 1);
      job.most = trace.whole(row, trace.column("most"), 1);
      job.steps = trace.whole(row, trace.column("steps"), 1);
      job.start = trace.number_from(row, trace.column("start_s"), 0);
      for (int64_t on = 1; trace.has(fmt::format("step_s_{}", on)); ++on)
        job.step_seconds.push_back(trace.number_from(row, trace.column(fmt::format("step_s_{}", on)), 1e-9));
    }
    if (jobs_.empty()) throw Error::make(Fault::spec, "{}: no jobs", trace.path());
    std::ranges::stable_sort(jobs_, {}, &PastJob::submitted);
  }

  pool::Cluster cluster_;
  double round_;
  std::vector<PastJob> jobs_;
  std::vector<Absence> absences_;
};

}  // namespace

bool is_pool_trace(const std::string& path) { return CsvTable::read(path).has(kFirstStepColumn); }

std::unique_ptr<World> open_pool_world(const WorldFiles& files) { return std::make_unique<PoolWorld>(files); }

}  // namespace estrain::simulate
