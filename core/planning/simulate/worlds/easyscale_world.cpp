#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/planning/simulate/tables/csv_table.h"
#include "core/planning/simulate/worlds/timed_job.h"
#include "core/planning/simulate/worlds/worlds.h"

namespace estrain::simulate {
namespace {

constexpr double kRoundOfEasyscale = 60, kFirstStart = 20;
// The published simulator's profiles are lost; these factors reproduce its published results.
constexpr double kProfileFactor = 1.35, kYoloHalfBatch = 0.6;

// Samples of an epoch: 1 % of the data set.
double samples_of_epoch(const std::string& model) {
  if (model == "yolov3") return 165.51;
  if (model == "bert" || model == "electra") return 886.41;
  if (model == "ncf") return 49'708.45;
  return 12'800;
}

struct ElasticJob {
  std::string name, model;
  int64_t order = 0;
  double submitted = 0;
  int64_t ests = 1;
  double batch = 1, epochs = 1;
  bool mixes = false;
  size_t type = 0;
};

class EasyscaleWorld : public World {
 public:
  explicit EasyscaleWorld(const WorldFiles& files)
      : cluster_(parse_cluster(files.cluster.empty() ? "4x8:v100,8x2:p100,4x4:t4" : files.cluster)) {
    read_step_times(files.folder + "/step_times.csv");
    read_trace(files.trace);
  }

  std::vector<std::string> workloads() const override { return {"1"}; }
  scheduling::EasyscaleRules easyscale_rules() const override { return scheduling::EasyscaleRules::simulator; }

  Workload make(const std::string&, scheduling::Knowledge, const Charge& charge, uint64_t) const override {
    Workload workload;
    workload.name = "1";
    workload.cluster = &cluster_;
    workload.round = kRoundOfEasyscale;
    const bool published = charge.kind == Charge::Kind::published;
    workload.whole_rounds = true;
    workload.charge = published ? 0 : charge.seconds;
    const TimedJob::Charges charges{published ? kFirstStart : charge.seconds, workload.charge};
    for (const ElasticJob& job : jobs_) {
      std::array<double, scheduling::Cluster::kMostTypes> mini_batch{};
      for (size_t type = 0; type < cluster_.types().size(); ++type) mini_batch[type] = seconds(job, type);
      const double steps = job.epochs * samples_of_epoch(job.model) / (static_cast<double>(job.ests) * job.batch);
      const auto steps_per_second = [mini_batch, ests = job.ests](const scheduling::Shape& shape) {
        const double step = step_seconds(shape, mini_batch, ests);
        return step > 0 ? 1 / step : 0;
      };
      auto made = std::make_unique<TimedJob>(cluster_, steps, charges, steps_per_second);
      made->facts.name = job.name;
      made->facts.order = job.order;
      made->facts.submitted = job.submitted;
      made->facts.requested = made->facts.most = job.ests;
      made->facts.mixes_types = job.mixes;
      made->facts.type = job.type;
      workload.jobs.push_back(std::move(made));
    }
    return workload;
  }

 private:
  // Returns the time with the best split of the ESTs: the shortest in which the devices compute a mini-batch for each
  // EST.
  static double step_seconds(const scheduling::Shape& shape,
                             const std::array<double, scheduling::Cluster::kMostTypes>& mini_batch, int64_t ests) {
    double best = 0;
    for (size_t type = 0; type < shape.devices.size(); ++type) {
      if (shape.devices[type] == 0) continue;
      for (int64_t each = 1; each <= ests; ++each) {
        const double step = static_cast<double>(each) * mini_batch[type];
        if (best > 0 && step >= best) break;
        int64_t done = 0;
        for (size_t other = 0; other < shape.devices.size(); ++other) {
          if (shape.devices[other] > 0) {
            done += shape.devices[other] * static_cast<int64_t>(std::floor(step / mini_batch[other] + 1e-9));
          }
        }
        if (done < ests) continue;
        best = step;
        break;
      }
    }
    return best;
  }

  void read_step_times(const std::string& path) {
    const CsvTable table = CsvTable::read(path);
    const size_t model = table.column("model"), batch = table.column("batch_per_est"), gpu = table.column("gpu"),
                 mode = table.column("mode"), seconds_column = table.column("seconds"), source = table.column("source");
    for (size_t row = 0; row < table.rows(); ++row) {
      const Measured measured{table.number_from(row, batch, 1), table.number_from(row, seconds_column, 0)};
      auto& of_model = measured_[std::string(table.text(row, model))];
      if (table.text(row, source) == "fig12" && table.text(row, mode) == "D1") {
        of_model.by_type[std::string(table.text(row, gpu))] = measured;
      } else if (table.text(row, source) == "fig11" && table.text(row, mode) == "D1, 8 ESTs, per EST, switching off") {
        of_model.second = measured;
      }
    }
  }

  // Returns the seconds of a mini-batch. On V100 linear in the batch through two measured points, both without a switch
  // of ESTs; on other types scaled by the ratio at the first point.
  double seconds(const ElasticJob& job, size_t type) const {
    const Model& model = measured_.at(job.model);
    const Measured &first = model.by_type.at("v100"), &second = *model.second;
    double v100 = 0;
    if (job.model == "yolov3" && first.batch == second.batch) {
      const double slope = (1 - kYoloHalfBatch) * first.seconds / (first.batch / 2);
      v100 = first.seconds + (job.batch - first.batch) * slope;
    } else {
      v100 =
          first.seconds + (job.batch - first.batch) * (second.seconds - first.seconds) / (second.batch - first.batch);
    }
    return kProfileFactor * v100 * model.by_type.at(cluster_.types()[type]).seconds / first.seconds;
  }

  void read_trace(const std::string& path) {
    const CsvTable trace = CsvTable::read(path);
    const size_t name = trace.column("name"), submit = trace.column("submit_s"), model = trace.column("model"),
                 ests = trace.column("max_parallelism"), batch = trace.column("batch_per_est"),
                 epochs = trace.column("epochs"), mixes = trace.column("heterogeneous"),
                 gpu = trace.column("preferred_gpu");
    std::map<std::string, size_t> places;
    for (size_t row = 0; row < trace.rows(); ++row) {
      ElasticJob job;
      job.name = trace.text(row, name);
      job.model = trace.text(row, model);
      job.submitted = trace.number_from(row, submit, 0);
      job.ests = trace.whole(row, ests, 1, 1 << 20);
      job.batch = trace.number_from(row, batch, 1);
      job.epochs = trace.number_from(row, epochs, 0);
      job.mixes = trace.whole(row, mixes, 0, 1) == 1;
      check_model(trace, row, model, job.model);
      const auto type = std::ranges::find(cluster_.types(), trace.text(row, gpu));
      if (type == cluster_.types().end()) {
        throw Error::make(Fault::infeasible, "{}: the cluster has no \"{}\"", trace.place(row, gpu),
                          trace.text(row, gpu));
      }
      job.type = fitting_type(static_cast<size_t>(type - cluster_.types().begin()), job.ests);
      if (job.ests > cluster_.devices_of_type(job.type)) {
        throw Error::make(Fault::infeasible, "{}: job {} asks for {} devices, the cluster has no type with as many",
                          trace.place(row, ests), job.name, job.ests);
      }
      job.order = static_cast<int64_t>(jobs_.size());
      const auto [at, is_new] = places.try_emplace(job.name, jobs_.size());
      if (is_new) {
        jobs_.push_back(job);
      } else {
        job.order = static_cast<int64_t>(at->second);
        jobs_[at->second] = job;
      }
    }
    if (jobs_.empty()) throw Error::make(Fault::spec, "{}: no jobs", path);
    std::ranges::stable_sort(jobs_, {}, &ElasticJob::submitted);
  }

  void check_model(const CsvTable& trace, size_t row, size_t column, const std::string& model) const {
    const auto at = measured_.find(model);
    if (at == measured_.end()) {
      throw Error::make(Fault::spec, "{}: step times of model \"{}\" are not known", trace.place(row, column), model);
    }
    for (const std::string& type : cluster_.types()) {
      if (!at->second.by_type.contains(type) || !at->second.by_type.contains("v100") || !at->second.second) {
        throw Error::make(Fault::spec, "{}: step times of model \"{}\" on {} are not known", trace.place(row, column),
                          model, type);
      }
    }
  }

  // Returns the preferred type, or the type with the most devices if a gang would not fit.
  size_t fitting_type(size_t preferred, int64_t devices) const {
    if (devices <= cluster_.devices_of_type(preferred)) return preferred;
    size_t largest = 0;
    for (size_t type = 0; type < cluster_.types().size(); ++type) {
      if (cluster_.devices_of_type(type) > cluster_.devices_of_type(largest)) largest = type;
    }
    return largest;
  }

  struct Measured {
    double batch = 1, seconds = 1;
  };
  struct Model {
    std::map<std::string, Measured, std::less<>> by_type;  // at the batch of fig12
    std::optional<Measured> second;                        // V100 at another batch
  };
  scheduling::Cluster cluster_;
  std::map<std::string, Model> measured_;
  std::vector<ElasticJob> jobs_;
};

}  // namespace

std::unique_ptr<World> open_easyscale_world(const WorldFiles& files) { return std::make_unique<EasyscaleWorld>(files); }

}  // namespace estrain::simulate
