#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>

#include "core/base/error.h"
#include "core/planning/simulate/tables/csv_table.h"
#include "core/planning/simulate/tables/job_trace.h"
#include "core/planning/simulate/worlds/timed_job.h"
#include "core/planning/simulate/worlds/worlds.h"

namespace estrain::simulate {
namespace {

constexpr double kRoundOfTraces = 60;

// How much slower jobs are on more hosts: measured for some models, numbers of devices and hosts. The nearest
// measurement counts; a job of an unknown model is as slow as the models are in the mean.
class PlacementSlowdown {
 public:
  // Columns: model, gpus, nodes, rel_speed (1: on one host).
  static PlacementSlowdown read(const std::string& path) {
    PlacementSlowdown all;
    std::map<Place, double> models;
    const CsvTable table = CsvTable::read(path);
    const size_t model = table.column("model"), gpus = table.column("gpus"), nodes = table.column("nodes"),
                 speed = table.column("rel_speed");
    for (size_t row = 0; row < table.rows(); ++row) {
      const Place place{table.whole(row, gpus, 1), table.whole(row, nodes, 1)};
      const double value = table.number_from(row, speed, 0);
      if (value <= 0 || value > 1) throw Error::make(Fault::spec, "{}: rel_speed {} is not in (0, 1]", path, value);
      all.speeds_[std::string(table.text(row, model))][place] = value;
      double& mean = all.speeds_[""][place];
      mean += (value - mean) / ++models[place];
    }
    return all;
  }

  double speed(const std::string& model, int64_t devices, int64_t hosts) const {
    if (hosts <= 1 || speeds_.empty()) return 1;
    const auto known = speeds_.find(model);
    const auto& places = (known == speeds_.end() ? speeds_.find("") : known)->second;
    const auto away = [&](const auto& entry) {
      const auto apart = [](int64_t one, int64_t other) {
        return std::abs(std::log(static_cast<double>(one) / static_cast<double>(other)));
      };
      return std::tuple(entry.first.hosts == 1, apart(entry.first.devices, devices), apart(entry.first.hosts, hosts));
    };
    return std::ranges::min_element(places, {}, away)->second;
  }

 private:
  struct Place {
    int64_t devices, hosts;
    auto operator<=>(const Place&) const = default;
  };
  std::map<std::string, std::map<Place, double>> speeds_;  // by model; "": the mean
};

class DurationsWorld : public World {
 public:
  explicit DurationsWorld(const WorldFiles& files) : files_(files) {
    read_trace();
    for (const std::string& name : names_) clusters_.emplace(name, cluster_of(name));
    check_sizes();
    read_quotas();
    std::error_code none;
    const std::string slowdown = files_.folder + "/placement_slowdown.csv";
    if (!files_.folder.empty() && std::filesystem::exists(slowdown, none))
      slowdown_ = PlacementSlowdown::read(slowdown);
  }

  std::vector<std::string> workloads() const override { return names_; }
  std::vector<std::string> notes() const override { return notes_; }

  Workload make(const std::string& name, scheduling::Knowledge, const Charge& charge, uint64_t) const override {
    Workload workload;
    workload.name = name;
    workload.cluster = &clusters_.at(name);
    workload.round = kRoundOfTraces;
    workload.at_events = true;
    workload.charge = charge.kind == Charge::Kind::published ? 0 : charge.seconds;
    const std::vector<TracedJob>& jobs = workloads_.at(name);
    workload.begin = jobs.front().submitted;
    for (const TracedJob& job : jobs) {
      const auto spread = [this, &job](const scheduling::Shape& shape) {
        int64_t hosts = 0;
        for (const int32_t of_type : shape.hosts) hosts += of_type;
        return slowdown_.speed(job.model, shape.all_devices(), hosts);
      };
      const double as_requested = spread(scheduling::packed(*workload.cluster, 0, job.devices));
      const auto speed = [ests = job.devices, spread, as_requested](const scheduling::Shape& shape) {
        const int64_t devices = shape.all_devices();
        const int64_t turns = (ests + devices - 1) / devices;
        return spread(shape) / as_requested / static_cast<double>(turns);
      };
      auto made = std::make_unique<TimedJob>(*workload.cluster, job.duration,
                                             TimedJob::Charges{workload.charge, workload.charge}, speed);
      made->facts.name = job.name;
      made->facts.owner = job.owner;
      const auto quota = quotas_.find(job.owner);
      made->facts.quota = quota == quotas_.end() ? 0 : quota->second;
      made->facts.order = static_cast<int64_t>(workload.jobs.size());
      made->facts.submitted = job.submitted;
      made->facts.requested = made->facts.most = job.devices;
      made->facts.deadline = job.deadline;
      workload.jobs.push_back(std::move(made));
    }
    return workload;
  }

 private:
  void read_trace() {
    JobTrace trace = read_job_trace(files_.trace);
    note_left_out(trace);
    for (TracedJob& job : trace.jobs) {
      if (!workloads_.contains(job.workload)) names_.push_back(job.workload);
      workloads_[job.workload].push_back(std::move(job));
    }
    for (auto& [name, jobs] : workloads_) std::ranges::stable_sort(jobs, {}, &TracedJob::submitted);
    if (names_.empty()) throw Error::make(Fault::spec, "{}: no jobs", files_.trace);
  }

  void note_left_out(const JobTrace& trace) {
    const int64_t left_out = trace.without_devices + trace.without_end;
    if (left_out == 0) return;
    notes_.push_back(fmt::format("{}: {} of {} jobs are left out: {} ask for no device, {} have no end", files_.trace,
                                 left_out, left_out + std::ssize(trace.jobs), trace.without_devices,
                                 trace.without_end));
  }

  scheduling::Cluster cluster_of(const std::string& workload) const {
    if (!files_.cluster.empty()) return parse_cluster(files_.cluster);
    std::error_code none;
    const std::string machines = files_.folder + "/philly_machines.csv";
    if (std::filesystem::exists(machines, none)) {
      const CsvTable table = CsvTable::read(machines);
      std::vector<scheduling::Host> hosts;
      for (size_t row = 0; row < table.rows(); ++row) {
        hosts.push_back({"gpu", table.whole(row, table.column("gpus_official"), 1)});
      }
      return scheduling::Cluster(std::move(hosts));
    }
    int64_t number = 0;
    std::from_chars(workload.data(), workload.data() + workload.size(), number);
    const bool is_itp = std::filesystem::exists(files_.folder + "/elasticflow_throughputs.csv", none);
    if (is_itp && hosts_of_itp_cluster(number) > 0) {
      return scheduling::Cluster(
          std::vector<scheduling::Host>(static_cast<size_t>(hosts_of_itp_cluster(number)), {"a100", 8}));
    }
    throw Error::make(Fault::usage, "the cluster of workload {} is unknown", workload)
        .advise("--cluster HOSTSxDEVICES, for instance 64x8");
  }

  void read_quotas() {
    std::error_code none;
    const std::string path = files_.folder + "/philly_vc_nodes.csv";
    if (files_.folder.empty() || !std::filesystem::exists(path, none)) return;
    const CsvTable table = CsvTable::read(path);
    for (size_t row = 0; row < table.rows(); ++row) {
      quotas_[std::string(table.text(row, table.column("vc")))] = 8 * table.whole(row, table.column("nodes_8gpu"), 0);
    }
  }

  void check_sizes() const {
    for (const auto& [name, jobs] : workloads_) {
      const int64_t most = clusters_.at(name).devices_of_type(0);
      const auto large = std::ranges::find_if(jobs, [&](const TracedJob& job) { return job.devices > most; });
      if (large == jobs.end()) continue;
      throw Error::make(Fault::infeasible, "{}: job {} asks for {} devices, the cluster has {}", files_.trace,
                        large->name, large->devices, most);
    }
  }

  WorldFiles files_;
  std::vector<std::string> names_, notes_;
  std::map<std::string, std::vector<TracedJob>> workloads_;
  std::map<std::string, scheduling::Cluster> clusters_;
  std::map<std::string, int64_t> quotas_;  // devices by virtual cluster
  PlacementSlowdown slowdown_;
};

}  // namespace

int64_t hosts_of_itp_cluster(int64_t number) {
  switch (number) {
    case 1:
    case 2:
    case 3:
    case 5:
    case 6:
      return 64;
    case 4:
    case 7:
    case 8:
    case 9:
      return 128;
    case 10:
      return 32;
    default:
      return 0;
  }
}

scheduling::Cluster parse_cluster(std::string_view text) {
  std::vector<scheduling::Host> hosts;
  const std::string_view all = text;
  for (bool more = true; more;) {
    const std::string_view part = text.substr(0, text.find(','));
    more = part.size() < text.size();
    text.remove_prefix(part.size() + (more ? 1 : 0));
    const std::string_view counts = part.substr(0, part.find(':'));
    const size_t cross = counts.find('x');
    int64_t number = 0, devices = 0;
    const auto whole = [](std::string_view digits, int64_t& value) {
      const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return wrong == std::errc() && end == digits.data() + digits.size() && value >= 1 && value <= 1'000'000;
    };
    if (cross == std::string_view::npos || !whole(counts.substr(0, cross), number) ||
        !whole(counts.substr(cross + 1), devices)) {
      throw Error::make(Fault::usage, "--cluster {}: \"{}\" is not of the form HOSTSxDEVICES or HOSTSxDEVICES:TYPE",
                        all, part);
    }
    const std::string type(counts.size() < part.size() ? part.substr(counts.size() + 1) : "gpu");
    hosts.insert(hosts.end(), static_cast<size_t>(number), {type, devices});
  }
  return scheduling::Cluster(std::move(hosts));
}

std::unique_ptr<World> open_durations_world(const WorldFiles& files) { return std::make_unique<DurationsWorld>(files); }

}  // namespace estrain::simulate
