#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "core/planning/simulate/tables/csv_table.h"
#include "core/planning/simulate/worlds/timed_job.h"
#include "core/planning/simulate/worlds/worlds.h"

namespace estrain::simulate {
namespace {

constexpr double kSlot = 60;  // s

// Iterations in a second, on 1, 2, 4, … devices.
using Speeds = std::vector<double>;

struct DeadlineJob {
  std::string name;
  double submitted, deadline;
  int64_t devices, iterations;
  const Speeds* speeds;
};

// Otherwise the names of the authors' own files.
bool has_our_names(const CsvTable& trace) {
  return trace.has("iterations") && trace.has("deadline_s") && trace.has("model");
}

double speed_on(const Speeds& speeds, int64_t devices) {
  const auto power = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(devices)) - 1);
  return speeds[std::min(power, speeds.size() - 1)];
}

// Returns the number of devices up to which more devices are faster.
int64_t most_useful(const Speeds& speeds) { return int64_t{1} << (std::ranges::max_element(speeds) - speeds.begin()); }

class ElasticflowWorld : public World {
 public:
  explicit ElasticflowWorld(const WorldFiles& files) : files_(files) {
    read_speeds();
    read_trace();
  }

  std::vector<std::string> workloads() const override { return names_; }

  Workload make(const std::string& name, scheduling::Knowledge, const Charge& charge, uint64_t) const override {
    Workload workload;
    workload.name = name;
    workload.cluster = &clusters_.at(name);
    workload.round = kSlot;
    workload.at_events = workload.rounds_too = true;
    workload.charge = charge.kind == Charge::Kind::published ? 0 : charge.seconds;
    const std::vector<DeadlineJob>& jobs = jobs_.at(name);
    workload.begin = jobs.front().submitted;
    for (const DeadlineJob& job : jobs) {
      const auto speed = [&job](const scheduling::Shape& shape) { return speed_on(*job.speeds, shape.all_devices()); };
      auto made = std::make_unique<TimedJob>(*workload.cluster, static_cast<double>(job.iterations),
                                             TimedJob::Charges{workload.charge, workload.charge}, speed);
      made->facts.name = job.name;
      made->facts.order = static_cast<int64_t>(workload.jobs.size());
      made->facts.submitted = job.submitted;
      made->facts.requested = job.devices;
      made->facts.most = std::min(most_useful(*job.speeds), workload.cluster->devices());
      made->facts.deadline = job.deadline;
      workload.jobs.push_back(std::move(made));
    }
    return workload;
  }

 private:
  using Kind = std::tuple<std::string, int64_t>;  // model, batch

  void read_speeds() {
    const CsvTable table = CsvTable::read_plain_or_gzip(files_.folder + "/elasticflow_throughputs.csv");
    for (size_t row = 0; row < table.rows(); ++row) {
      const Kind kind{table.text(row, table.column("model")), table.whole(row, table.column("global_batch_size"), 1)};
      const int64_t devices = table.whole(row, table.column("num_gpu"), 1);
      Speeds& speeds = speeds_[kind];
      if (devices != int64_t{1} << speeds.size()) {
        throw Error::make(Fault::spec, "{}: {} devices, where {} were expected: powers of two in their order",
                          table.place(row, table.column("num_gpu")), devices, int64_t{1} << speeds.size());
      }
      speeds.push_back(table.number_from(row, table.column("iters_per_s"), 1e-9));
    }
  }

  void read_trace() {
    const CsvTable trace = CsvTable::read(files_.trace);
    const bool ours = has_our_names(trace);
    const auto column = [&](const char* name, const char* theirs) { return trace.column(ours ? name : theirs); };
    const size_t model = column("model", "model_name"), batch = trace.column("batch_size"),
                 job = column("job", "job_id"), submit = column("submit_s", "submit_time"),
                 deadline = column("deadline_s", "ddl"), devices = trace.column("num_gpu"),
                 iterations = column("iterations", "real_iteration");
    for (size_t row = 0; row < trace.rows(); ++row) {
      const std::string name = trace.has("cluster") ? std::string(trace.text(row, trace.column("cluster"))) : "1";
      const auto speeds = speeds_.find({std::string(trace.text(row, model)), trace.whole(row, batch, 1)});
      if (speeds == speeds_.end()) {
        throw Error::make(Fault::spec, "{}: {} with a batch of {} was not measured", trace.place(row, model),
                          trace.text(row, model), trace.text(row, batch));
      }
      if (!jobs_.contains(name)) {
        names_.push_back(name);
        clusters_.emplace(name, cluster_of(name));
      }
      DeadlineJob& one = jobs_[name].emplace_back();
      one = {std::string(trace.text(row, job)), trace.number_from(row, submit, 0), trace.number(row, deadline),
             trace.whole(row, devices, 1),      trace.whole(row, iterations, 1),   &speeds->second};
      if (one.devices > clusters_.at(name).devices()) {
        throw Error::make(Fault::infeasible, "{}: {} devices, the cluster has {}", trace.place(row, devices),
                          one.devices, clusters_.at(name).devices());
      }
    }
    if (names_.empty()) throw Error::make(Fault::spec, "{}: no jobs", files_.trace);
    for (auto& [name, jobs] : jobs_) std::ranges::stable_sort(jobs, {}, &DeadlineJob::submitted);
  }

  scheduling::Cluster cluster_of(const std::string& name) const {
    if (!files_.cluster.empty()) return parse_cluster(files_.cluster);
    int64_t number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (const int64_t hosts = hosts_of_itp_cluster(number); hosts > 0)
      return scheduling::Cluster(std::vector<scheduling::Host>(static_cast<size_t>(hosts), {"a100", 8}));
    throw Error::make(Fault::usage, "the cluster of workload {} is not known", name)
        .advise("--cluster HOSTSxDEVICES, for instance 16x8");
  }

  WorldFiles files_;
  std::map<Kind, Speeds> speeds_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<DeadlineJob>> jobs_;
  std::map<std::string, scheduling::Cluster> clusters_;
};

}  // namespace

bool is_elasticflow_trace(const std::string& path) {
  const CsvTable trace = CsvTable::read(path);
  return has_our_names(trace) || (trace.has("real_iteration") && trace.has("ddl") && trace.has("model_name"));
}

std::unique_ptr<World> open_elasticflow_world(const WorldFiles& files) {
  return std::make_unique<ElasticflowWorld>(files);
}

}  // namespace estrain::simulate
