#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/planning/simulate/tables/csv_table.h"
#include "core/planning/simulate/worlds/pollux_application.h"
#include "core/planning/simulate/worlds/pollux_job.h"
#include "core/planning/simulate/worlds/worlds.h"

namespace estrain::simulate {
namespace {

constexpr int64_t kHosts = 16, kDevices = 4;
constexpr double kRound = 60, kPublishedCharge = 30;

// The reference simulator's limits, missing in the simulator's tables.
const std::map<std::string, BatchLimits>& known_limits() {
  static const std::map<std::string, BatchLimits> known = {
      {"bert", {4, 12, 12, 384, 2, false}},          {"cifar10", {32, 1024, 128, 4096, 100, false}},
      {"deepspeech2", {10, 80, 20, 640, 80, false}}, {"imagenet", {20, 200, 200, 12800, 90, false}},
      {"ncf", {256, 32768, 256, 32768, 10, true}},   {"yolov3", {4, 8, 8, 512, 50, false}},
  };
  return known;
}

struct TraceJob {
  std::string name;
  double submitted;
  const PolluxApplication* app;
  int64_t replicas;
  double batch;
};

class PolluxWorld : public World {
 public:
  PolluxWorld(const std::string& folder, const std::string& trace)
      : cluster_(std::vector<scheduling::Host>(kHosts, {"t4", kDevices})) {
    for (const auto& [name, limits] : known_limits()) applications_.try_emplace(name, name, limits);
    read_tables(folder);
    read_trace(trace);
  }

  std::vector<std::string> workloads() const override { return names_; }

  Workload make(const std::string& name, scheduling::Knowledge knowledge, const Charge& charge,
                uint64_t) const override {
    Workload workload;
    workload.name = name;
    workload.cluster = &cluster_;
    workload.round = kRound;
    workload.charge = charge.kind == Charge::Kind::published ? kPublishedCharge : charge.seconds;
    std::map<std::pair<const PolluxApplication*, double>, std::shared_ptr<EpochTable>> tables;
    std::map<const PolluxApplication*, std::shared_ptr<Learnt>> learnt;
    for (const auto& [app_name, app] : applications_) {
      learnt[&app] = std::make_shared<Learnt>(app, Learnt::By::all_jobs);
    }
    for (const TraceJob& job : workloads_.at(name)) {
      const bool free = knowledge != scheduling::Knowledge::given_batch;
      const BatchLimits& limits = job.app->limits();
      const double batch = !free ? job.batch : limits.one_device ? static_cast<double>(limits.most) : 0;
      auto& table = tables[{job.app, batch}];
      if (!table) table = std::make_shared<EpochTable>(*job.app, batch);
      std::shared_ptr<Learnt> known;
      if (knowledge == scheduling::Knowledge::learnt_batch) {
        known = std::make_shared<Learnt>(*job.app, Learnt::By::one_job);
      } else if (knowledge == scheduling::Knowledge::shared_batch) {
        known = learnt.at(job.app);
      }
      auto made = std::make_unique<PolluxJob>(*job.app, job.batch, workload.charge, table, known);
      made->facts.name = job.name;
      made->facts.order = static_cast<int64_t>(workload.jobs.size());
      made->facts.submitted = job.submitted;
      made->facts.requested = job.replicas;
      made->facts.changes_batch = free;
      const double most = free ? static_cast<double>(limits.most) : job.batch;
      made->facts.most = limits.one_device ? 1
                                           : std::clamp<int64_t>(static_cast<int64_t>(most) / limits.least_local, 1,
                                                                 cluster_.devices());
      workload.jobs.push_back(std::move(made));
    }
    return workload;
  }

 private:
  PolluxApplication& application(const CsvTable& table, size_t row, size_t column) {
    const auto at = applications_.find(std::string(table.text(row, column)));
    if (at == applications_.end()) {
      throw Error::make(Fault::spec, "{}: application \"{}\" is not in the tables", table.place(row, column),
                        table.text(row, column));
    }
    return at->second;
  }

  void read_tables(const std::string& folder) {
    const CsvTable placed = CsvTable::read_plain_or_gzip(folder + "/pollux_placements.csv");
    size_t app = placed.column("app"), local = placed.column("local_bsz"), step = placed.column("step_time_s"),
           sync = placed.column("sync_time_s");
    const size_t placement = placed.column("placement");
    for (size_t row = 0; row < placed.rows(); ++row) {
      application(placed, row, app)
          .add_placement(std::to_string(placed.whole(row, placement, 1)), placed.whole(row, local, 1),
                         {placed.number_from(row, step, 0), placed.number_from(row, sync, 0)});
    }
    const CsvTable between = CsvTable::read_plain_or_gzip(folder + "/pollux_interpolated.csv");
    app = between.column("app"), local = between.column("local_bsz"), step = between.column("step_time_s"),
    sync = between.column("sync_time_s");
    const size_t hosts = between.column("num_nodes"), devices = between.column("num_replicas");
    for (size_t row = 0; row < between.rows(); ++row) {
      application(between, row, app)
          .add_between(between.whole(row, hosts, 1), between.whole(row, devices, 1), between.whole(row, local, 1),
                       {between.number(row, step), between.number(row, sync)});
    }
    const CsvTable valid = CsvTable::read_plain_or_gzip(folder + "/pollux_validation.csv");
    app = valid.column("app");
    const size_t batch = valid.column("batch_size"), epoch = valid.column("epoch"), progress = valid.column("progress"),
                 iteration = valid.column("iteration"), sqr = valid.column("grad_sqr"), var = valid.column("grad_var");
    for (size_t row = 0; row < valid.rows(); ++row) {
      application(valid, row, app)
          .add_validation(valid.whole(row, batch, 1), valid.whole(row, epoch, 0, 100'000),
                          {valid.number_from(row, progress, 0), valid.number_from(row, iteration, 0),
                           valid.number_from(row, sqr, 0), valid.number_from(row, var, 0)});
    }
    std::erase_if(applications_, [](const auto& application) { return application.second.is_empty(); });
    for (auto& [name, application] : applications_) application.finish(valid.path());
  }

  void read_trace(const std::string& path) {
    const CsvTable trace = CsvTable::read(path);
    const size_t name = trace.column("name"), time = trace.column("time_s"), app = trace.column("application"),
                 replicas = trace.column("num_replicas"), batch = trace.column("batch_size");
    const bool many = trace.has("load") && trace.has("workload");
    const size_t load = many ? trace.column("load") : 0, number = many ? trace.column("workload") : 0;
    for (size_t row = 0; row < trace.rows(); ++row) {
      const std::string workload =
          many ? fmt::format("{}/{}", trace.text(row, load), trace.text(row, number)) : std::string("1");
      if (!workloads_.contains(workload)) names_.push_back(workload);
      const PolluxApplication& application_of_job = application(trace, row, app);
      TraceJob job{std::string(trace.text(row, name)), trace.number_from(row, time, 0), &application_of_job,
                   trace.whole(row, replicas, 1), static_cast<double>(trace.whole(row, batch, 1))};
      if (job.replicas > cluster_.devices()) {
        throw Error::make(Fault::infeasible, "{}: job {} asks for {} devices, the cluster has {}",
                          trace.place(row, replicas), job.name, job.replicas, cluster_.devices());
      }
      if (job.batch > static_cast<double>(application_of_job.limits().most)) {
        throw Error::make(Fault::spec, "{}: {} is above {}, the largest batch of {}", trace.place(row, batch),
                          job.batch, application_of_job.limits().most, application_of_job.name());
      }
      workloads_[workload].push_back(std::move(job));
    }
    for (auto& [workload, jobs] : workloads_) {
      std::ranges::stable_sort(jobs, {}, &TraceJob::submitted);
    }
    if (names_.empty()) throw Error::make(Fault::spec, "{}: no jobs", path);
  }

  scheduling::Cluster cluster_;
  std::map<std::string, PolluxApplication> applications_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<TraceJob>> workloads_;
};

}  // namespace

std::unique_ptr<World> open_pollux_world(const std::string& folder, const std::string& trace) {
  return std::make_unique<PolluxWorld>(folder, trace);
}

}  // namespace estrain::simulate
